// node web.mjs FOLDER MODEL.ONNX INPUTS.JSON PEER SECONDS THREADS: times of one run in ms, in turns:
// a model compiled by Infuse for WebAssembly, and ONNX Runtime Web (the folder PEER has it installed).
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

const [, , folder, path, inputs, peer, seconds, threads] = argv;
const require = createRequire(pathToFileURL(`${peer}/`));
const ort = await import(pathToFileURL(require.resolve("onnxruntime-web")).href);
ort.env.wasm.numThreads = Number(threads);
ort.env.logLevel = "error";
const { load } = await import(pathToFileURL(`${folder}/model.mjs`).href);
const KINDS = { float32: Float32Array, int64: BigInt64Array };
const specs = JSON.parse(await readFile(inputs, "utf-8"));
const arrays = specs.map(({ name, dtype, shape, data }) =>
  [name, { data: KINDS[dtype].from(dtype === "int64" ? data.map(BigInt) : data), shape, dtype }]);

const model = await load({ threads: Number(threads) });
const session = await ort.InferenceSession.create(path, { graphOptimizationLevel: "all" });
const feeds = Object.fromEntries(
  arrays.map(([name, { data, shape, dtype }]) => [name, new ort.Tensor(dtype, data, shape)]));
const given = Object.fromEntries(arrays);
const runs = { infuse: async () => model.run(given), "onnxruntime-web": () => session.run(feeds) };

const [ours, theirs] = [await runs.infuse(), await runs["onnxruntime-web"]()];
let difference = 0;
for (const [name, { data }] of Object.entries(ours)) {
  const other = theirs[name].data;
  let most = 0, apart = 0;
  data.forEach((x, i) => {
    most = Math.max(most, Math.abs(Number(other[i])));
    apart = Math.max(apart, Math.abs(Number(x) - Number(other[i])));
  });
  difference = Math.max(difference, apart / (most || 1));
}
const times = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
const stop = performance.now() + 1000 * Number(seconds);
while (performance.now() < stop || times.infuse.length < 5) {
  for (const [name, run] of Object.entries(runs)) {
    const begin = performance.now();
    await run();
    times[name].push(performance.now() - begin);
  }
}
console.log(JSON.stringify({ difference, times, version: ort.env.versions?.web ?? "" }));
process.exit(0);
