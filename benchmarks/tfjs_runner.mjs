// Runs a graph model of TensorFlow.js: node tfjs_runner.mjs MODULES MODEL.json FEEDS.json OUTPUTS.json
// FEEDS and OUTPUTS: {name: {dtype, shape, data}}, data in base64. MODULES: the folder node_modules.
import fs from 'node:fs';
import path from 'node:path';
import {createRequire} from 'node:module';

const [modules, model, feeds, outputs] = process.argv.slice(2);
const tf = createRequire(path.join(path.resolve(modules), 'x.js'))('@tensorflow/tfjs');
const TYPES = {float32: Float32Array, int32: Int32Array, bool: Uint8Array};

const document = JSON.parse(fs.readFileSync(model));
const manifest = document.weightsManifest;
const shards = manifest.flatMap(group => group.paths);
const weights = Buffer.concat(shards.map(name => fs.readFileSync(path.join(path.dirname(model), name))));
const artifacts = {
  modelTopology: document.modelTopology,
  format: document.format,
  signature: document.signature,
  userDefinedMetadata: document.userDefinedMetadata,
  weightSpecs: manifest.flatMap(group => group.weights),
  weightData: weights.buffer.slice(weights.byteOffset, weights.byteOffset + weights.byteLength),
};

await tf.setBackend('cpu');
const graph = await tf.loadGraphModel({load: async () => artifacts});
const inputs = {};
for (const [name, {dtype, shape, data}] of Object.entries(JSON.parse(fs.readFileSync(feeds)))) {
  const bytes = Buffer.from(data, 'base64');
  const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  inputs[name] = tf.tensor(new TYPES[dtype](copy), shape, dtype);
}
const nodes = graph.outputs.map(output => output.name);
const result = await graph.executeAsync(inputs, nodes);
const results = Array.isArray(result) ? result : [result];
const answers = {};
results.forEach((tensor, i) => {
  const data = tensor.dataSync();
  answers[nodes[i]] = {
    dtype: tensor.dtype,
    shape: tensor.shape,
    data: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64'),
  };
});
fs.writeFileSync(outputs, JSON.stringify(answers));
