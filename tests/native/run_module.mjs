// node run_module.mjs MODULE REQUEST.JSON: runs a model's module on inputs, prints its outputs as JSON.
// A number of 64 bits is text; an input is { type, data, shape? }.
import { readFile } from "node:fs/promises";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

if (process.env.STUB) (0, eval)(process.env.STUB);  // what a test takes away
const { load } = await import(pathToFileURL(argv[2]).href);
const request = JSON.parse(await readFile(argv[3], "utf-8"));

function tensor({ type, data, shape }) {
  const Kind = globalThis[type];
  const array = Kind.from(type.startsWith("Big") ? data.map(BigInt) : data.map(Number));
  return shape ? { data: array, shape } : array;
}

function plain({ data, shape, dtype }) {
  return { dtype, shape, data: Array.from(data, (x) => (Object.is(x, -0) ? "-0" : String(x))) };
}

try {
  const loads = [];
  const onProgress = (loaded, total) => loads.push([loaded, total]);
  const model = await load({ onProgress, ...request.load });
  const answers = request.calls.map(({ inputs, symbols }) => {
    try {
      const tensors = Object.entries(inputs).map(([name, value]) => [name, tensor(value)]);
      const results = model.run(Object.fromEntries(tensors), symbols);
      return Object.fromEntries(Object.entries(results).map(([k, v]) => [k, plain(v)]));
    } catch (error) {
      return { error: `${error.name}: ${error.message}` };
    }
  });
  model.close();
  const { threads } = model;
  console.log(JSON.stringify({ answers, last: loads.at(-1) ?? null, threads }));
} catch (error) {
  console.log(JSON.stringify({ error: `${error.name}: ${error.message}` }));
}
