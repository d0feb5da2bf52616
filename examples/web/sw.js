// Makes the page work offline: answers with the server's files, or with cached copies if there is no network.
// page.js caches the models itself.
const FILES = ["./", "index.html", "page.css", "page.js", "icon.svg", "server.js", "transformer.js", "typing.js", "worker.js", "transformer-simd.wasm",
  "transformer.wasm", "models.json"];

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open("page").then((cache) => cache.addAll(FILES.map((file) => new Request(file, { cache: "reload" })))));
});
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || !FILES.some((file) => request.url === new URL(file, registration.scope).href)) return;
  event.respondWith(caches.open("page").then(async (cache) => {
    try {
      const response = await fetch(request);
      if (response.ok) await cache.put(request, response.clone());
      return response;
    } catch (error) {
      const kept = await cache.match(request, { ignoreVary: true });
      if (kept) return kept;
      throw error;
    }
  }));
});
