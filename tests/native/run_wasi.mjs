// node run_wasi.mjs PROGRAM.WASM ARGUMENT…: a program of WASI that sees all files by their paths.
import { readFile } from "node:fs/promises";
import process, { argv } from "node:process";
import { WASI } from "node:wasi";

const [, , program, ...rest] = argv;
const wasi = new WASI({ version: "preview1", args: [program, ...rest], preopens: { "/": "/" } });
const module = await WebAssembly.compile(await readFile(program));
// exit() would end threads of Node.js that still compile, now and then with a crash.
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
