// Nanoseconds of a call by the module of JavaScript: call.mjs FOLDER.
import { pathToFileURL } from "node:url";

const { load } = await import(pathToFileURL(`${process.argv[2]}/model.mjs`).href);
const model = await load();
const inputs = { x: new Float32Array([1]), y: new Float32Array([2]) };
let best = 1e18, outputs;
for (let round = 0; round < 60; round++) {
  const start = process.hrtime.bigint();
  for (let i = 0; i < 20000; i++) outputs = model.run(inputs);
  best = Math.min(best, Number(process.hrtime.bigint() - start) / 20000);
}
console.log(best.toFixed(1), best.toFixed(1), outputs.z.data[0]);
