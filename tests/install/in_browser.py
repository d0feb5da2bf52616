"""in_browser.py CHROMIUM FOLDER MODEL TEXT ...: a page in FOLDER imports the npm package from node_modules, and translates
in a Worker. Prints the translations."""

import functools
import http.server
import json
import sys
import threading

from playwright.sync_api import sync_playwright

PAGE = """<!doctype html><script type="module">
import { load } from "./node_modules/transformer-h/transformer.js";
const worker = new Worker("./node_modules/transformer-h/worker.js", { type: "module" });
window.all = (async (pairs) => {
  const said = [];
  for (const [file, text] of pairs) {
    const model = await load(await (await fetch(file)).arrayBuffer(), { worker, exact: true });
    for (const one of await model.translateAll(text.split("\\n"))) said.push(`${one.score.toFixed(4)}\\t${one.text}`);
    await model.close();
  }
  return said;
})(PAIRS);
</script>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm", ".js": "text/javascript"}

    def log_message(self, *_):
        pass


browser, folder, *pairs = sys.argv[1:]
with open(f"{folder}/index.html", "w", encoding="utf-8") as file:
    file.write(PAGE.replace("PAIRS", json.dumps(list(zip(pairs[::2], pairs[1::2])))))
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
threading.Thread(target=server.serve_forever, daemon=True).start()
with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
    page = chromium.new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
    page.wait_for_function("window.all")
    for one in page.evaluate("window.all"):
        print(one)
    chromium.close()
