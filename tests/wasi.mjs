// node tests/wasi.mjs PROGRAM.wasm [ARGUMENT ...]: runs a WebAssembly program that sees this directory.
import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";

const wasi = new WASI({ version: "preview1", args: process.argv.slice(2), preopens: { ".": "." }, returnOnExit: true });
globalThis.wasi = wasi; // or Node 20 collects it while the program runs
const module = new WebAssembly.Module(readFileSync(process.argv[2]));
process.exitCode = wasi.start(new WebAssembly.Instance(module, wasi.getImportObject()));
