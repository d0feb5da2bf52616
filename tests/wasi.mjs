// node tests/wasi.mjs PROGRAM.wasm [ARGUMENT ...]: runs a WebAssembly program that sees this directory.
import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";

const wasi = new WASI({ version: "preview1", args: process.argv.slice(2), env: { V: process.env.V ?? "" }, preopens: { ".": "." }, returnOnExit: true });
globalThis.wasi = wasi; // or Node 20 collects it while the program runs
// Called directly, WASI's functions take a short cut in which the garbage collector of Node 20 may crash.
const imports = {};
for (const [name, call] of Object.entries(wasi.wasiImport)) imports[name] = (...values) => call(...values);
const module = new WebAssembly.Module(readFileSync(process.argv[2]));
process.exitCode = wasi.start(new WebAssembly.Instance(module, { wasi_snapshot_preview1: imports }));
