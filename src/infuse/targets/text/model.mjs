// The model as a module of JavaScript: for browsers, workers and Node.js.
//
//     import { load } from "./model.mjs";
//     const model = await load();  // model.wasm and weights.bin lie beside this file
//     const results = model.run({ name: new Float32Array([...]) });
//     results.name.data, results.name.shape;
//     model.close();

const INPUTS = @INPUTS@;
const OUTPUTS = @OUTPUTS@;
const SYMBOLS = @SYMBOLS@;
const WEIGHTS_BYTES = @WEIGHTS_BYTES@;
const WEIGHTS_HASH = "@WEIGHTS_HASH@";
const EMBEDDED = @EMBEDDED@;
const CACHE = "infuse";
const THREADS = @THREADS@;
const RELAXED = @RELAXED@;
const MOST_THREADS = 256, USUAL_THREADS = 4;
const PREFIX = "@PREFIX@";
const ALIGNMENT = 64;
/** What the elements of each type lie in. */
export const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  float16: Uint16Array, bfloat16: Uint16Array, float32: Float32Array, float64: Float64Array,
};

const floor_div = (a, b) => (b === 0 ? 0 : Math.floor(a / b));
const floor_mod = (a, b) => a - floor_div(a, b) * b;
const max_long = Math.max, min_long = Math.min;
const broadcast_size = (a, b) => (a === 1 ? b : a);

/** The shape of every input for these values of symbols. */
const inputShapes = (symbols) => [@SHAPES@];

const elements = (shape) => shape.reduce((a, b) => a * b, 1);
const shown = (shape) => `[${shape.join(", ")}]`;

/** The content of a file, a part at a time; `source`: an address, a Response or bytes. */
async function* parts(source, signal) {
  if (source instanceof ArrayBuffer) source = new Uint8Array(source);
  if (ArrayBuffer.isView(source)) {
    yield new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    return;
  }
  const isResponse = typeof Response !== "undefined" && source instanceof Response;
  if (!isResponse && new URL(source).protocol === "file:" && typeof process !== "undefined") {
    const { createReadStream } = await import("node:fs");
    yield* createReadStream(new URL(source), { signal });
    return;
  }
  const response = isResponse ? source : await fetch(source, { signal });
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${response.statusText}`);
  const reader = response.body.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
}

async function whole(source, signal) {
  const read = [];
  for await (const part of parts(source, signal)) read.push(part);
  return new Uint8Array(await new Blob(read).arrayBuffer());
}

/** A model in the memory of a module. One call at a time. */
export class Model {
  #exports;
  #memory;
  #context;
  #weights;
  #pool;

  constructor(exports, memory, context, weights, threads, pool) {
    this.#exports = exports;
    this.#memory = memory;
    this.#context = context;
    this.#weights = weights;
    this.#pool = pool;
    this.threads = threads;
  }

  /** Names, types and shapes; sizes are numbers, or texts of symbols. */
  get inputs() { return structuredClone(INPUTS); }
  get outputs() { return structuredClone(OUTPUTS); }
  get symbols() { return [...SYMBOLS]; }

  /** The shapes of the inputs by name, for values of symbols by name. */
  shapes(symbols) {
    const shapes = inputShapes(SYMBOLS.map((name) => symbols[name]));
    return Object.fromEntries(INPUTS.map((spec, i) => [spec.name, shapes[i]]));
  }

  /** Bytes of working memory that the model has now. */
  get arenaBytes() { return Number(this.#call("arena_bytes", this.#context)); }

  /**
   * The outputs by name, each { data, shape, dtype }. An input is a typed array, or { data, shape }
   * where its shape does not follow from the number of its elements; `symbols`: values by name,
   * where these do not follow from shapes either.
   */
  run(inputs, symbols = {}) {
    if (!this.#context) throw new Error("the model is closed");
    const unknown = Object.keys(inputs).filter((name) => !INPUTS.some((i) => i.name === name));
    if (unknown.length) {
      const names = INPUTS.map((i) => i.name).join(", ");
      throw new TypeError(`there is no input ${unknown.join(", ")}; the inputs are ${names}`);
    }
    const arrays = INPUTS.map((spec) => checked(spec, inputs[spec.name]));
    const values = resolved(arrays, symbols);
    const shapes = inputShapes(values);
    arrays.forEach((array, i) => array && compare(INPUTS[i].name, array, shapes[i]));
    const taken = [];
    try {
      return this.#computed(arrays, values, taken);
    } finally {
      for (const address of taken) this.#exports.free(address);
    }
  }

  /** Frees the memory of the model. */
  close() {
    if (!this.#context) return;
    this.#call("close", this.#context);
    if (this.#weights) this.#exports.free(this.#weights);
    this.#pool?.close();
    this.#context = 0;
  }

  #computed(arrays, values, taken) {
    const numbers = this.#place(taken, 8 * Math.max(1, values.length));
    this.#view(BigInt64Array, numbers, values.length).set(values.map(BigInt));
    const total = OUTPUTS.reduce((sum, spec) => sum + spec.shape.length, 0);
    const dims = this.#place(taken, 8 * Math.max(1, total));
    if (this.#call("shapes", numbers, dims)) throw new RangeError("the sizes are invalid");
    const sizes = [...this.#view(BigInt64Array, dims, total)].map(Number);
    const addresses = arrays.map((array) => {
      if (!array) return 0;
      const { data } = array;
      const address = this.#place(taken, data.byteLength);
      const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      this.#view(Uint8Array, address, bytes.length).set(bytes);
      return address;
    });
    let first = 0;
    const shapes = OUTPUTS.map((spec) => sizes.slice(first, (first += spec.shape.length)));
    const results = OUTPUTS.map((spec, i) =>
      spec.late ? 0 : this.#place(taken, elements(shapes[i]) * ARRAYS[spec.dtype].BYTES_PER_ELEMENT));
    const given = this.#pointers(taken, addresses), made = this.#pointers(taken, results);
    if (this.#call("run", this.#context, numbers, given, made)) throw new Error(this.#error());
    return Object.fromEntries(OUTPUTS.map((spec, i) => {
      let address = results[i], shape = shapes[i];
      if (spec.late) {
        address = this.#call("output", this.#context, i, dims);
        shape = [...this.#view(BigInt64Array, dims, spec.shape.length)].map(Number);
      }
      const data = this.#view(ARRAYS[spec.dtype], address, elements(shape)).slice();
      return [spec.name, { data, shape, dtype: spec.dtype }];
    }));
  }

  #call(name, ...rest) { return this.#exports[`${PREFIX}_${name}`](...rest); }

  /** Memory of the module, which may grow: views of it are made when they are used. */
  #view(Kind, address, count) { return new Kind(this.#memory.buffer, address, count); }

  #place(taken, bytes) {
    const address = this.#exports.malloc(bytes + 8);
    if (!address) throw new RangeError(`there is no memory for ${bytes} bytes`);
    taken.push(address);
    return address + (-address & 7);
  }

  #pointers(taken, addresses) {
    const place = this.#place(taken, 4 * Math.max(1, addresses.length));
    this.#view(Uint32Array, place, addresses.length).set(addresses);
    return place;
  }

  #error() {
    const start = this.#call("error", this.#context);
    const bytes = new Uint8Array(this.#memory.buffer, start);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }
}

/** An input as { data, shape }; undefined where it is optional and absent. */
function checked(spec, input) {
  if (input === undefined && spec.optional) return undefined;
  if (input === undefined) throw new TypeError(`the input ${spec.name} is missing`);
  const array = ArrayBuffer.isView(input) ? { data: input } : input;
  const Kind = ARRAYS[spec.dtype];
  if (!(array?.data instanceof Kind)) {
    throw new TypeError(`the input ${spec.name} is ${spec.dtype}: give a ${Kind.name}`);
  }
  return { data: array.data, shape: array.shape && [...array.shape] };
}

/** The values of symbols: those that are stated, those of shapes, and those that lengths tell. */
function resolved(arrays, stated) {
  const values = { ...stated };
  arrays.forEach((array, i) => {
    if (!array?.shape) return;
    const { name, shape } = INPUTS[i];
    if (array.shape.length !== shape.length) {
      throw new RangeError(`the input ${name} has ${shape.length} axes, not ${array.shape.length}`);
    }
    shape.forEach((size, axis) => {
      if (SYMBOLS.includes(size)) values[size] ??= array.shape[axis];
    });
  });
  arrays.forEach((array, i) => {
    if (!array || array.shape) return;
    const sizes = INPUTS[i].shape.map((size) => values[size] ?? size);
    const open = sizes.filter((size) => typeof size === "string");
    if (open.length !== 1 || !SYMBOLS.includes(open[0])) return;
    const others = elements(sizes.filter((size) => typeof size === "number"));
    values[open[0]] = others ? array.data.length / others : 0;
  });
  return SYMBOLS.map((name) => {
    const value = values[name];
    if (value === undefined) {
      throw new TypeError(`the size ${name} does not follow from the inputs: give { data, shape }`);
    }
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new RangeError(`the size ${name} would be ${value}`);
    }
    return value;
  });
}

function compare(name, array, shape) {
  if (array.shape && array.shape.some((size, axis) => size !== shape[axis])) {
    throw new RangeError(`the input ${name} has the shape ${shown(array.shape)}, not ${shown(shape)}`);
  }
  if (array.data.length !== elements(shape)) {
    const has = `has ${array.data.length} elements`;
    throw new RangeError(`the input ${name} ${has}, and its shape ${shown(shape)} ${elements(shape)}`);
  }
}

// Modules of one function each: i8x16.popcnt of a splat, and i32x4.relaxed_trunc_f32x4_s.
const WITH_SIMD = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15,
  253, 98, 11,
];
const WITH_RELAXED_SIMD = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 11, 1, 9, 0, 65, 0, 253, 15,
  253, 129, 2, 11,
];
const validates = (bytes) => WebAssembly.validate(new Uint8Array(bytes));

/** An Error where the model cannot run here. */
async function check(threads) {
  if (typeof WebAssembly === "undefined") throw new Error("there is no WebAssembly here");
  if (!validates(WITH_SIMD)) {
    throw new Error("there is no SIMD of WebAssembly here, which the model needs: Chrome and Edge"
      + " have it from 91 on, Firefox from 89, Safari from 16.4, Node.js from 16.4");
  }
  if (RELAXED && !validates(WITH_RELAXED_SIMD)) {
    throw new Error("there is no relaxed SIMD of WebAssembly here, which the model was compiled for:"
      + " compile it with a target without +relaxed_simd");
  }
  const most = THREADS ? MOST_THREADS : 1;
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= most)) {
    const hint = THREADS ? "" : "; --target wasm32-threads compiles a model for more";
    throw new RangeError(`threads is ${threads}, and a number from 1 to ${most}${hint}`);
  }
}

async function compiled(bytes) {
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw new Error(`the code cannot be compiled here (${error.message})`, { cause: error });
  }
}

/** The code, ready to be called, with its memory, and the workers of a model with threads. */
async function started(code, threads) {
  const module = await compiled(code);
  if (!THREADS) {
    const { exports } = await WebAssembly.instantiate(module, {});
    exports._initialize();
    return { exports, memory: exports.memory, threads: 1 };
  }
  const { obstacle, Pool, processors } = await import("./threads.mjs");
  const why = obstacle();
  if (why) throw new Error(why);
  threads ??= Math.min(USUAL_THREADS, await processors());
  const pool = await Pool.open(module, code, threads - 1);
  return { exports: pool.instance.exports, memory: pool.memory, threads, pool };
}

/** Writes the weights into memory at `address` as they come. */
async function fill(memory, address, source, onProgress, signal) {
  let loaded = 0;
  for await (const part of parts(source, signal)) {
    if (loaded + part.length > WEIGHTS_BYTES) { loaded += part.length; break; }
    new Uint8Array(memory.buffer, address + loaded).set(part);
    loaded += part.length;
    onProgress?.(loaded, WEIGHTS_BYTES);
  }
  if (loaded !== WEIGHTS_BYTES) {
    const kind = loaded > WEIGHTS_BYTES ? "more than" : `${loaded} of`;
    throw new RangeError(`these are not the weights of this model: ${kind} ${WEIGHTS_BYTES} bytes`);
  }
}

/** Weights in the cache of the browser, by their content. */
class CachedWeights {
  static async open(source) {
    if (typeof source !== "string" && !(source instanceof URL)) {
      throw new TypeError("cache is for weights that are named by an address");
    }
    const key = new URL(source, globalThis.location?.href);
    if (typeof caches === "undefined") {
      console.warn("there is no cache for weights here: pages have one on localhost and over HTTPS");
      return { source: key };
    }
    // The address, too, is that of this content: caches of HTTP hold no other one by it.
    key.searchParams.set("weights", WEIGHTS_HASH);
    const entries = await caches.open(CACHE);
    for (const { url } of await entries.keys()) {
      const isOld = new URL(url).pathname === key.pathname && url !== key.href;
      if (isOld) await entries.delete(url);
    }
    const cached = new CachedWeights();
    const found = await entries.match(key);
    return Object.assign(cached, { entries, key, found, source: key });
  }

  /** Stores what is in memory, all of it or nothing; a full disk is no failure. */
  async store(memory, address) {
    const PART = 1 << 20;
    let at = 0;
    const body = new ReadableStream({
      pull(stream) {
        const length = Math.min(PART, WEIGHTS_BYTES - at);
        if (length) stream.enqueue(new Uint8Array(memory.buffer, address + at, length).slice());
        else stream.close();
        at += length;
      },
    });
    const headers = { "Content-Type": "application/octet-stream", "Content-Length": WEIGHTS_BYTES };
    try {
      await this.entries.put(this.key, new Response(body, { headers }));
    } catch (error) {
      console.warn(`the weights are not cached: ${error.message}`);
    }
  }
}

/** Memory with the weights: its block, and where they begin. */
async function stored({ exports, memory }, source, { cache, onProgress, signal }) {
  const block = exports.malloc(WEIGHTS_BYTES + ALIGNMENT);
  if (!block) throw new RangeError(`there is no memory for ${WEIGHTS_BYTES} bytes of weights`);
  const address = block + (ALIGNMENT - (block % ALIGNMENT));
  const cached = cache ? await CachedWeights.open(source) : { source };
  if (cached.found) {
    try {
      await fill(memory, address, cached.found, onProgress, signal);
      return { block, address };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      await cached.entries.delete(cached.key);
      console.warn(`the cached weights were damaged and are loaded anew: ${error.message}`);
    }
  }
  await fill(memory, address, cached.source, onProgress, signal);
  await cached.store?.(memory, address);
  return { block, address };
}

/**
 * The model. `wasm`, `weights`: addresses, Responses or bytes in place of the files beside this one;
 * `onProgress(loaded, total)` is called with bytes of the weights; `signal` ends the loading;
 * `threads`: of a model with threads, the caller's among them, else those of the machine, 4 at most;
 * `cache`: whether the browser keeps the weights, so that they are fetched once.
 */
export async function load({ wasm, weights, onProgress, signal, threads, cache } = {}) {
  await check(threads);
  const code = await whole(wasm ?? new URL("@WASM@", import.meta.url), signal);
  const start = await started(code, threads);
  try {
    const source = weights ?? new URL("weights.bin", import.meta.url);
    const { block, address } = EMBEDDED || !WEIGHTS_BYTES ? { block: 0, address: 0 }
      : await stored(start, source, { cache, onProgress, signal });
    const context = start.exports[`${PREFIX}_open`](address, start.threads);
    if (!context) throw new RangeError("there is no memory for the model");
    return new Model(start.exports, start.memory, context, block, start.threads, start.pool);
  } catch (error) {
    start.pool?.close();
    throw error;
  }
}
