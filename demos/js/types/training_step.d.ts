/**
 * A training step that pd.export_step wrote, with its state: parameters, the optimizer's slots and
 * the random seed.
 *
 * Its methods take turns: a call begins when all earlier ones have ended, since two runs of a step
 * at once would begin from the same state.
 */
export class TrainingStep {
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
    static create(ort: Runtime, step: Uint8Array, initial: Uint8Array, { device, providers }?: {
        device?: string;
        providers?: Provider[];
    }): Promise<TrainingStep>;
    /**
     * Use `create`.
     *
     * @param {Runtime} ort
     * @param {Session} session
     * @param {Record<string, string>} entries the metadata of the step
     * @param {Record<string, Tensor>} state
     * @param {Uint8Array} initial
     */
    constructor(ort: Runtime, session: Session, entries: Record<string, string>, state: Record<string, Tensor>, initial: Uint8Array);
    ort: any;
    session: any;
    state: Record<string, Tensor>;
    initial: Uint8Array<ArrayBufferLike>;
    /** Which states fit: a hash of the step's operators and of the types of its state. */
    digest: string;
    /** @type {Record<string, string>} the input that gets an output in the next run */
    following: Record<string, string>;
    /** @type {string[]} the names of what a batch has */
    feeds: string[];
    /** @type {string[]} the names of what `run` returns */
    fetches: string[];
    /**
     * Run a job when all earlier ones have ended.
     *
     * @template T
     * @param {() => Promise<T> | T} job
     * @returns {Promise<T>}
     */
    alone<T>(job: () => Promise<T> | T): Promise<T>;
    /**
     * Run one step on a batch; return what it fetches, such as the loss.
     *
     * @param {Record<string, Tensor>} batch
     * @returns {Promise<Record<string, Tensor>>}
     */
    run(batch: Record<string, Tensor>): Promise<Record<string, Tensor>>;
    /** The learning rate, of a step whose rate is part of its state. */
    get learningRate(): Promise<number | bigint>;
    /**
     * Set the learning rate of the runs that follow.
     *
     * @param {number} rate
     */
    setLearningRate(rate: number): Promise<void>;
    /**
     * Return the state as bytes of a safetensors file, with the step's digest; of `only` some names.
     *
     * @param {{ only?: RegExp }} [options]
     * @returns {Promise<Uint8Array<ArrayBuffer>>}
     */
    save({ only }?: {
        only?: RegExp;
    }): Promise<Uint8Array<ArrayBuffer>>;
    /**
     * Go on from the bytes of `save`; nothing is changed if they do not fit.
     *
     * With `partial` the file may have some of the state, such as the adapters that `only` saved, and
     * may come from another step: names, types and shapes have to fit.
     *
     * @param {Uint8Array} bytes
     * @param {{ partial?: boolean }} [options]
     */
    load(bytes: Uint8Array, { partial }?: {
        partial?: boolean;
    }): Promise<void>;
    /** Begin anew with the initial state. */
    reset(): Promise<void>;
    /**
     * Keep the state in a store, or go on from there; `restore` returns whether there was one.
     *
     * @param {Store} store
     * @param {string} name
     */
    keep(store: Store, name: string): Promise<void>;
    /**
     * @param {Store} store
     * @param {string} name
     * @returns {Promise<boolean>}
     */
    restore(store: Store, name: string): Promise<boolean>;
    /**
     * Run another model, such as one for prediction or evaluation, with the present weights.
     *
     * @param {Session} session whose inputs have the names of the state
     * @param {Record<string, Tensor>} feeds
     * @returns {Promise<Record<string, Tensor>>}
     */
    evaluate(session: Session, feeds: Record<string, Tensor>): Promise<Record<string, Tensor>>;
    /**
     * Return the part of the state that is an input of another model.
     *
     * @param {Session} session
     * @returns {Record<string, Tensor>}
     */
    inputsOf(session: Session): Record<string, Tensor>;
    /** Free the session and the state, after all calls. */
    release(): Promise<void>;
    #private;
}
export type NamedArray = import("./safetensors.js").NamedArray;
export type Store = import("./stores.js").Store;
/**
 * the module onnxruntime-web or onnxruntime-node
 */
export type Runtime = any;
export type Session = any;
export type Tensor = {
    type: string;
    dims: readonly number[];
    data: any;
    dispose(): void;
    getData?: () => Promise<any>;
};
export type Provider = string | {
    name: string;
    [option: string]: unknown;
};
