// A thread of the model: shares memory and code with the module that has started it.

let exports;

async function heard({ module, memory, available, thread, stack, local }, answer) {
  if (module) {
    try {
      ({ exports } = await WebAssembly.instantiate(module, {
        env: { memory },
        infuse: {
          now: () => performance.now(),
          processors: () => available,
          may_wait: () => 1,
          start: () => 0,
        },
      }));
      answer({});
    } catch (error) {
      answer({ error });
    }
    return;
  }
  exports.__stack_pointer.value = stack;
  exports.__wasm_init_tls(local);
  try {
    exports.infuse_thread(thread);
  } catch (error) {
    // Whoever waits for this thread goes on, and tells that it failed.
    console.error(`a thread of the model ended: ${error.message}`);
    exports.__stack_pointer.value = stack;
    exports.infuse_thread_lost(thread);
  }
}

if (typeof WorkerGlobalScope !== "undefined") {
  self.onmessage = ({ data }) => heard(data, (message) => self.postMessage(message));
} else {
  const { parentPort } = await import("node:worker_threads");
  parentPort.on("message", (data) => heard(data, (message) => parentPort.postMessage(message)));
}
