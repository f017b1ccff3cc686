// Runs the model on zeros and prints the shapes of its outputs: node example.mjs [SIZE], where SIZE
// is the value of every symbolic size.
import { load } from "./model.mjs";

export { load };

const KINDS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  float16: Uint16Array, bfloat16: Uint16Array, float32: Float32Array, float64: Float64Array,
};

/** Inputs of zeros. */
export function zeros(model, size) {
  const shapes = model.shapes(Object.fromEntries(model.symbols.map((name) => [name, size])));
  return Object.fromEntries(model.inputs.filter((spec) => !spec.optional).map((spec) => {
    const shape = shapes[spec.name];
    return [spec.name, { data: new KINDS[spec.dtype](shape.reduce((a, b) => a * b, 1)), shape }];
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
