// The threads of the model: workers that share its memory.

/** What keeps workers from sharing memory here; empty where nothing does. */
export function obstacle() {
  const isolated = typeof crossOriginIsolated === "undefined" || crossOriginIsolated;
  if (typeof SharedArrayBuffer !== "undefined" && isolated) return "";
  return "this model has threads, and memory is shared on isolated pages alone: serve the page and"
    + " its files with the headers Cross-Origin-Opener-Policy: same-origin and"
    + " Cross-Origin-Embedder-Policy: require-corp (node serve.mjs does), or compile the model"
    + " with --target wasm32, for one thread";
}

/** Threads that the machine runs at once. */
export async function processors() {
  if (typeof navigator !== "undefined" && navigator.hardwareConcurrency) {
    return navigator.hardwareConcurrency;
  }
  const { availableParallelism } = await import("node:os");
  return availableParallelism();
}

/** The least size of the memory that a module imports, in pages. */
function leastPages(bytes) {
  let at = 8;
  const number = () => {
    let value = 0, factor = 1, byte;
    do {
      byte = bytes[at++];
      value += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
    return value;
  };
  const skip = () => { const length = number(); at += length; };
  while (at < bytes.length && bytes[at++] !== 2) skip();
  number();
  for (let left = number(); left > 0; --left) {
    skip();
    skip();
    const kind = bytes[at++];
    number();  // the type of a function, or whether memory has a limit
    if (kind === 2) return number();
  }
  throw new Error("the code imports no memory: it is not that of a model with threads");
}

/** Memory of as many pages as code and browser allow. */
function sharedMemory(initial) {
  let failure;
  for (let maximum = 65535; maximum > initial; maximum >>= 1) {
    try {
      return new WebAssembly.Memory({ initial, maximum, shared: true });
    } catch (error) { failure = error; }
  }
  throw new RangeError(`there is no memory to share (${failure.message})`, { cause: failure });
}

async function newWorker() {
  if (typeof Worker !== "undefined") {
    return new Worker(new URL("./worker.mjs", import.meta.url), { type: "module" });
  }
  const { Worker: NodeWorker } = await import("node:worker_threads");
  return new NodeWorker(new URL("./worker.mjs", import.meta.url));
}

/** Calls hear(message) for each message of a worker, and fail(error) where it ends with an error. */
function listen(worker, hear, fail) {
  if (worker.on) {
    worker.on("message", hear);
    worker.on("error", fail);
  } else {
    worker.onmessage = ({ data }) => hear(data);
    worker.onerror = (event) => fail(new Error(event.message || "worker.mjs cannot be loaded"));
  }
}

/** Workers for the threads of one model, the caller's thread not among them. */
export class Pool {
  #idle = [];
  #workers = [];

  /** `bytes`: the code that `module` was compiled from; `count`: workers. */
  static async open(module, bytes, count) {
    const pool = new Pool();
    pool.memory = sharedMemory(leastPages(bytes));
    const available = await processors();
    pool.imports = {
      env: { memory: pool.memory },
      infuse: {
        now: () => performance.now(),
        processors: () => available,
        may_wait: () => typeof document === "undefined",
        start: (thread, stack, local) => pool.#start({ thread, stack, local }),
      },
    };
    pool.instance = await WebAssembly.instantiate(module, pool.imports);
    pool.instance.exports._initialize();
    try {
      const ready = Array.from({ length: count }, () => pool.#add(module, available));
      await Promise.all(ready);
    } catch (error) {
      pool.close();
      throw error;
    }
    return pool;
  }

  async #add(module, available) {
    const worker = await newWorker();
    this.#workers.push(worker);
    await new Promise((resolve, reject) => {
      listen(worker, ({ error }) => (error ? reject(error) : resolve()), reject);
      worker.postMessage({ module, memory: this.memory, available });
    });
    worker.unref?.();  // a program of Node.js may end
    this.#idle.push(worker);
  }

  #start(thread) {
    const worker = this.#idle.pop();
    worker?.postMessage(thread);
    return worker ? 1 : 0;
  }

  close() {
    for (const worker of this.#workers) worker.terminate();
    this.#workers = this.#idle = [];
  }
}
