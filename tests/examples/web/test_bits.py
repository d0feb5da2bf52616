"""Compares the bits of the page's module, loaded with exact, in Chromium and Firefox with tests/data/bits.txt.

A browser opens a page that computes checksums and sends them back. No driver takes part, because playwright cannot drive
Debian's Firefox.
"""

import http.server
import json
import os
import queue
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXPECTED = [line for line in (ROOT / "tests/data/bits.txt").read_text().splitlines() if line.split()[1] in ("greedy", "beam")]
BROWSERS = {
    "chromium": [os.environ.get("CHROMIUM", "chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir={profile}"],
    "firefox": [os.environ.get("FIREFOX", "firefox-esr"), "--headless", "--no-remote", "--profile", "{profile}"],
}
PAGE = """<!doctype html><script type="module">
const send = (value) => fetch("/done", { method: "POST", body: JSON.stringify(value) });
try {
  const { load } = await import("/build/web/transformer.js"), { checksums } = await import("/tests/examples/bits.mjs");
  const worker = new Worker("/build/web/worker.js", { type: "module" }), found = [];
  for (const language of ["de", "zh"]) {
    const bytes = await (await fetch(`/examples/models/${language}-en.safetensors`)).arrayBuffer();
    for (const simd of [true, false])
      for (const lines of simd ? [5, 50] : [5]) {
        const model = await load(bytes, { worker, exact: true, simd });
        found.push([model.info.kernels, model.info.arithmetic, ...await checksums(model, language, lines)]);
        model.close();
      }
  }
  await send({ agent: navigator.userAgent, found });
} catch (error) {
  await send({ error: `${error.stack ?? ""} ${error}` });
}
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the page and the repository's files, and puts what the page sends into a queue."""

    def __init__(self, done, *args, **more):
        self.done = done
        super().__init__(*args, **more)

    def do_GET(self):
        if self.path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def do_POST(self):
        self.done.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


Handler.extensions_map = {**Handler.extensions_map, ".mjs": "text/javascript", ".js": "text/javascript"}


@pytest.mark.parametrize("name", BROWSERS)
def test_exact_has_the_bits_of_every_machine(name, tmp_path):
    program = shutil.which(BROWSERS[name][0])
    if not program:
        pytest.skip(f"no {BROWSERS[name][0]}: install it, or name another one in {name.upper()}")
    done = queue.Queue()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, done, directory=str(ROOT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [program, *(word.format(profile=tmp_path) for word in BROWSERS[name][1:]), f"http://127.0.0.1:{server.server_port}/"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        answer = done.get(timeout=500)
    finally:
        run.terminate()
        run.wait()
        server.shutdown()
        server.server_close()
    assert "error" not in answer, answer
    print(answer["agent"])
    assert name in answer["agent"].lower().replace("chrome", "chromium")
    simd, plain = ["WASM SIMD128, fused", "fused"], ["plain C", "fused"]
    assert [found[:2] for found in answer["found"]] == 2 * [simd, simd, plain]
    for found in answer["found"]:
        for line in found[2:]:
            assert line in EXPECTED
