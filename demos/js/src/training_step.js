import { FeedError, StateError } from "./errors.js";
import { metadata } from "./metadata.js";
import { decode, encode } from "./safetensors.js";

/**
 * @typedef {import("./safetensors.js").NamedArray} NamedArray
 * @typedef {import("./stores.js").Store} Store
 * @typedef {any} Runtime the module onnxruntime-web or onnxruntime-node
 * @typedef {any} Session
 * @typedef {{ type: string, dims: readonly number[], data: any, dispose(): void, getData?: () => Promise<any> }} Tensor
 * @typedef {string | { name: string, [option: string]: unknown }} Provider
 */

const DIGEST = "pd.digest";
const RATE = "learning_rate";

/**
 * A training step that pd.export_step wrote, with its state: parameters, the optimizer's slots and
 * the random seed.
 *
 * Its methods take turns: a call begins when all earlier ones have ended, since two runs of a step
 * at once would begin from the same state.
 */
export class TrainingStep {
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();

  /**
   * Use `create`.
   *
   * @param {Runtime} ort
   * @param {Session} session
   * @param {Record<string, string>} entries the metadata of the step
   * @param {Record<string, Tensor>} state
   * @param {Uint8Array} initial
   */
  constructor(ort, session, entries, state, initial) {
    this.ort = ort;
    this.session = session;
    this.state = state;
    this.initial = initial;
    /** Which states fit: a hash of the step's operators and of the types of its state. */
    this.digest = entries[DIGEST] ?? "";
    /** @type {Record<string, string>} the input that gets an output in the next run */
    this.following = JSON.parse(entries["pd.state"]);
    /** @type {string[]} the names of what a batch has */
    this.feeds = JSON.parse(entries["pd.feeds"]);
    /** @type {string[]} the names of what `run` returns */
    this.fetches = JSON.parse(entries["pd.fetches"]);
  }

  /**
   * Load the two models that pd.export_step writes with `initial`.
   *
   * With `device: "webgpu"` the weights stay in the memory of the GPU. `providers` are other
   * execution providers of ONNX Runtime.
   *
   * @param {Runtime} ort
   * @param {Uint8Array} step
   * @param {Uint8Array} initial
   * @param {{ device?: string, providers?: Provider[] }} [options]
   */
  static async create(ort, step, initial, { device, providers } = {}) {
    const entries = metadata(step);
    if (!entries["pd.state"]) throw new StateError("this model is no step of pd.export_step");
    const state = await initialState(ort, initial);
    /** @type {Record<string, unknown>} */
    const options = {};
    if (providers ?? device) options.executionProviders = providers ?? [device];
    if (device === "webgpu") {
      const outputs = Object.entries(JSON.parse(entries["pd.state"]));
      const floats = outputs.filter(([, input]) => state[input]?.type === "float32");
      options.preferredOutputLocation = Object.fromEntries(floats.map(([y]) => [y, "gpu-buffer"]));
    }
    const session = await ort.InferenceSession.create(step, options);
    return new TrainingStep(ort, session, entries, state, initial);
  }

  /**
   * Run a job when all earlier ones have ended.
   *
   * @template T
   * @param {() => Promise<T> | T} job
   * @returns {Promise<T>}
   */
  alone(job) {
    const result = this.#last.then(job);
    this.#last = result.catch(() => {});
    return result;
  }

  /**
   * Run one step on a batch; return what it fetches, such as the loss.
   *
   * @param {Record<string, Tensor>} batch
   * @returns {Promise<Record<string, Tensor>>}
   */
  run(batch) {
    return this.alone(async () => {
      this.#check(batch);
      const results = await this.session.run({ ...batch, ...this.state });
      for (const [output, input] of Object.entries(this.following)) {
        this.state[input].dispose();
        this.state[input] = results[output];
        delete results[output];
      }
      return results;
    });
  }

  /** @param {Record<string, unknown>} batch */
  #check(batch) {
    const missing = this.feeds.filter((name) => !(name in batch));
    const unknown = Object.keys(batch).filter((name) => !this.feeds.includes(name));
    if (missing.length || unknown.length) {
      const wrong = missing.length ? `lacks ${missing.join(", ")}` : `has ${unknown.join(", ")}`;
      throw new FeedError(`the batch ${wrong}; the step takes ${this.feeds.join(", ")}`);
    }
  }

  /** The learning rate, of a step whose rate is part of its state. */
  get learningRate() {
    return this.alone(async () => (await copied(this.#rate())).data[0]);
  }

  /**
   * Set the learning rate of the runs that follow.
   *
   * @param {number} rate
   */
  setLearningRate(rate) {
    return this.alone(() => {
      const { type, dims } = this.#rate();
      if (!(rate >= 0)) throw new RangeError(`a learning rate is a number from 0 on, not ${rate}`);
      this.#replace({ [RATE]: { type, dims, data: Float32Array.of(rate) } });
    });
  }

  #rate() {
    const rate = this.state[RATE];
    if (!rate) throw new StateError(`the state of this step has no “${RATE}”`);
    return rate;
  }

  /**
   * Return the state as bytes of a safetensors file, with the step's digest; of `only` some names.
   *
   * @param {{ only?: RegExp }} [options]
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  save({ only } = {}) {
    return this.alone(async () => {
      const names = Object.keys(this.state).filter((name) => !only || only.test(name));
      const arrays = await Promise.all(names.map((name) => copied(this.state[name])));
      return encode(Object.fromEntries(names.map((name, k) => [name, arrays[k]])), {
        [DIGEST]: this.digest,
      });
    });
  }

  /**
   * Go on from the bytes of `save`; nothing is changed if they do not fit.
   *
   * With `partial` the file may have some of the state, such as the adapters that `only` saved, and
   * may come from another step: names, types and shapes have to fit.
   *
   * @param {Uint8Array} bytes
   * @param {{ partial?: boolean }} [options]
   */
  load(bytes, { partial = false } = {}) {
    return this.alone(() => {
      const { arrays, metadata: entries } = decode(bytes);
      if (!partial && entries[DIGEST] !== this.digest) {
        throw new StateError("the saved state is stale: it is that of another step");
      }
      for (const [name, { type, dims }] of Object.entries(arrays)) {
        const ours = this.state[name];
        if (!ours) throw new StateError(`the step has no state “${name}”`);
        if (ours.type !== type || ours.dims.join() !== dims.join()) {
          const both = [ours, { type, dims }].map((each) => `${each.type}[${each.dims}]`);
          throw new StateError(`“${name}” is ${both[0]}, and ${both[1]} in the saved state`);
        }
      }
      const missing = Object.keys(this.state).filter((name) => !(name in arrays));
      if (!partial && missing.length) {
        throw new StateError(`the saved state lacks ${missing.slice(0, 4).join(", ")}`);
      }
      this.#replace(arrays);
    });
  }

  /** @param {Record<string, NamedArray>} arrays */
  #replace(arrays) {
    for (const [name, { type, dims, data }] of Object.entries(arrays)) {
      const tensor = new this.ort.Tensor(type, data, dims);
      this.state[name].dispose();
      this.state[name] = tensor;
    }
  }

  /** Begin anew with the initial state. */
  reset() {
    return this.alone(async () => {
      const state = await initialState(this.ort, this.initial);
      for (const tensor of Object.values(this.state)) tensor.dispose();
      this.state = state;
    });
  }

  /**
   * Keep the state in a store, or go on from there; `restore` returns whether there was one.
   *
   * @param {Store} store
   * @param {string} name
   */
  async keep(store, name) {
    await store.put(name, await this.save());
  }

  /**
   * @param {Store} store
   * @param {string} name
   * @returns {Promise<boolean>}
   */
  async restore(store, name) {
    const bytes = await store.get(name);
    if (bytes) await this.load(bytes);
    return bytes !== undefined;
  }

  /**
   * Run another model, such as one for prediction or evaluation, with the present weights.
   *
   * @param {Session} session whose inputs have the names of the state
   * @param {Record<string, Tensor>} feeds
   * @returns {Promise<Record<string, Tensor>>}
   */
  evaluate(session, feeds) {
    return this.alone(() => session.run({ ...feeds, ...this.inputsOf(session) }));
  }

  /**
   * Return the part of the state that is an input of another model.
   *
   * @param {Session} session
   * @returns {Record<string, Tensor>}
   */
  inputsOf(session) {
    const names = session.inputNames.filter((/** @type {string} */ name) => name in this.state);
    return Object.fromEntries(names.map((/** @type {string} */ name) => [name, this.state[name]]));
  }

  /** Free the session and the state, after all calls. */
  release() {
    return this.alone(async () => {
      for (const tensor of Object.values(this.state)) tensor.dispose();
      this.state = {};
      await this.session.release();
    });
  }
}

/**
 * @param {Runtime} ort
 * @param {Uint8Array} model
 * @returns {Promise<Record<string, Tensor>>}
 */
async function initialState(ort, model) {
  const session = await ort.InferenceSession.create(model);
  const state = { ...(await session.run({})) };
  await session.release();
  return state;
}

/**
 * @param {Tensor} tensor
 * @returns {Promise<NamedArray>}
 */
async function copied(tensor) {
  const data = tensor.getData ? await tensor.getData() : tensor.data;
  return { type: tensor.type, dims: [...tensor.dims], data: data.slice() };
}
