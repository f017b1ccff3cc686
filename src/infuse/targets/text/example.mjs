// Runs the model on zeros and prints the shapes of its outputs: node example.mjs [SIZE], where SIZE
// is the value of every symbolic size.
import { ARRAYS, load } from "./model.mjs";

export { load };

/** Inputs of zeros. */
export function zeros(model, size) {
  const shapes = model.shapes(Object.fromEntries(model.symbols.map((name) => [name, size])));
  return Object.fromEntries(model.inputs.filter((spec) => !spec.optional).map((spec) => {
    const shape = shapes[spec.name];
    return [spec.name, { data: new ARRAYS[spec.dtype](shape.reduce((a, b) => a * b, 1)), shape }];
  }));
}

async function isProgram() {
  if (typeof process === "undefined" || !process.argv?.[1]) return false;
  const { pathToFileURL } = await import("node:url");
  return import.meta.url === pathToFileURL(process.argv[1]).href;
}

if (await isProgram()) {
  const model = await load();
  const results = model.run(zeros(model, Number(process.argv[2] ?? 8)));
  for (const [name, { shape }] of Object.entries(results)) console.log(`${name}: [${shape}]`);
  model.close();
}
