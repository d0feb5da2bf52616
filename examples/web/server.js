// Translates by examples/server/server.py, which serves this page: what page.js needs of a Translator of transformer.js.

/** Returns the API key of an address that ends in #api_key=KEY. */
const key = () => new URLSearchParams(location.hash.slice(1)).get("api_key");

/** Returns the address of a WebSocket of the server. Parameters that are undefined are left out. */
function socketAddress(path, parameters) {
  const address = new URL(path, document.baseURI);
  address.protocol = address.protocol.replace("http", "ws");
  for (const [name, value] of Object.entries({ ...parameters, api_key: key() })) if (value) address.searchParams.set(name, value);
  return address.href;
}

/** Asks the server and returns its answer. body is an object, which is sent as JSON, or a FormData. */
async function ask(path, body, signal) {
  const how = body instanceof FormData ? { body } : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const response = await fetch(path, body ? { method: "POST", signal, ...how } : { signal });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw Object.assign(new Error(answer.error ?? `the server answered with status ${response.status}`), { code: response.status });
}

export class Server {
  /** Returns a Server that knows its languages and formats of documents. */
  static async open() {
    const [languages, settings] = await Promise.all([ask("languages"), ask("frontend/settings")]);
    return new Server(languages, settings);
  }

  constructor(languages, settings) {
    this.names = new Map(languages.map(({ code, name }) => [code, name]));
    /** code of a source: codes of its targets, also those that two models reach */
    this.targets = new Map(languages.filter(({ targets }) => targets.length).map(({ code, targets }) => [code, targets]));
    this.formats = settings.supportedFilesFormat ?? [];
    this.first = settings.language;
    this.hears = settings.speech ?? false; // live speech
    this.info = { hasText: true, kernels: "", heads: 0, encoderLayers: 0, decoderLayers: 0, needsSource: true, needsTarget: true,
      languages: [...this.names.keys()] };
    this.way = undefined; // codes of the languages that the last translation went through, if there was one between
  }

  /** Returns the lines. The server finds the sentences of a line. */
  async sentences(text) {
    return [...text.matchAll(/\S[^\r\n]*/g)].map(({ 0: line, index }) => ({ begin: index, end: index + line.length }));
  }

  /** Returns { language, confidence } of the most probable language of a text that can be translated into target. */
  async detect(text, target, signal) {
    const found = await ask("detect", { q: text.slice(0, 5000), api_key: key() ?? undefined }, signal);
    return found.find(({ language }) => language === target || this.targets.get(language)?.includes(target));
  }

  /** Returns a translation, or an error, for each text. If the server refuses a list, its halves are tried. */
  async translateAll(texts, { source, target, signal }) {
    if (source === target) return texts.map((text) => ({ source: text, text }));
    try {
      const answer = await ask("translate", { q: texts, source, target, api_key: key() ?? undefined }, signal);
      this.way = answer.way?.find(Boolean);
      return answer.translatedText.map((text, i) => ({ source: texts[i], text }));
    } catch (error) {
      if (error.code !== 400) throw error;
      if (texts.length < 2) return [{ source: texts[0], text: "", error }];
      const half = texts.length >> 1;
      const how = { source, target, signal };
      return [...await this.translateAll(texts.slice(0, half), how), ...await this.translateAll(texts.slice(half), how)];
    }
  }

  /** Translates a document. Returns its address on this server, and lines about what stays as it is. progress is called each second
   * with an object: status, and when the status is "translating", sentences, sentences_done and seconds_remaining. */
  async translateFile(file, { source, target, signal, progress }) {
    const form = new FormData();
    const id = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    for (const [name, value] of Object.entries({ source, target, progress: id, api_key: key() })) if (value) form.append(name, value);
    form.append("file", file);
    const timer = setInterval(() => ask(`progress/${id}`, undefined, signal).then(progress, () => {}), 1000);
    try {
      const { translatedFileUrl, notes = [] } = await ask("translate_file", form, signal);
      return { address: new URL(translatedFileUrl).pathname, notes };
    } finally {
      clearInterval(timer);
    }
  }

  /** Returns the address of the WebSocket that takes sound and sends its text, and its translation if the languages are known. */
  listening({ source, target }) {
    return socketAddress("listen?format=s16le&rate=16000", source === "auto" ? {} : { source, target });
  }

  /** Begins a text that is translated while it comes. show is called with each { source, stable_text, text, done }, and ended with
   * an Error, or with undefined after finish. Returns what takes the text. */
  live({ source, target }, show, ended) {
    const socket = new WebSocket(socketAddress("live", { source, target })), waiting = [];
    const send = (text) => (socket.readyState === WebSocket.CONNECTING ? waiting.push(text) : socket.readyState === WebSocket.OPEN && socket.send(text));
    let wrong;
    socket.onopen = () => waiting.splice(0).forEach(send);
    socket.onmessage = ({ data }) => {
      const line = JSON.parse(data);
      if (line.error) wrong = line.error;
      else show(line);
    };
    socket.onclose = ({ code, reason }) => ended(wrong || code !== 1000 ? new Error(wrong ?? (reason || "the connection to the server has ended")) : undefined);
    return { feed: (text) => text && send(text), finish: () => send(""), close: () => { socket.onmessage = socket.onclose = null; socket.close(); } };
  }

  async memory() {
    return undefined; // the server's
  }

  close() {}
}
