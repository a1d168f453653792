// Calls of functions in a worker: `serve` is the worker's side, `Service` the page's.

/** Answer calls with the results of these functions, in a worker. */
export function serve(commands) {
  self.addEventListener("message", async ({ data: { id, command, values } }) => {
    try {
      self.postMessage({ id, result: await commands[command](values) });
    } catch (error) {
      self.postMessage({ id, problem: error?.message ?? String(error) });
    }
  });
}

/** Tell the page something between the answers. */
export function tell(event, values) {
  self.postMessage({ event, values });
}

/** The page's side of a worker; `listeners` are functions by the names of events. */
export class Service {
  constructor(url, listeners) {
    this.calls = new Map();
    this.count = 0;
    this.worker = new Worker(url, { type: "module" });
    this.worker.addEventListener("message", ({ data }) => {
      if (data.event) listeners[data.event](data.values);
      else this.#answer(data);
    });
    this.worker.addEventListener("error", (event) => {
      const problem = event.message || `${url} could not be loaded.`;
      for (const id of this.calls.keys()) this.#answer({ id, problem });
    });
  }

  /** Return a promise of the function's result; errors are those of the worker. */
  call(command, values = {}) {
    const id = ++this.count;
    return new Promise((resolve, reject) => {
      this.calls.set(id, { resolve, reject });
      this.worker.postMessage({ id, command, values });
    });
  }

  /** Free what the worker holds, and end it. */
  async end() {
    await this.call("release");
    this.worker.terminate();
  }

  #answer({ id, result, problem }) {
    const { resolve, reject } = this.calls.get(id);
    this.calls.delete(id);
    if (problem === undefined) resolve(result);
    else reject(new Error(problem));
  }
}
