// A client of federated averaging, for Node and browsers: trains on its own data, sends weights.

import { encode, TrainingStep } from "../js/src/index.js";

/**
 * The data of a client: how many samples it has, and the feeds of some of them by their numbers.
 *
 * @typedef {{ count: number, batch(rows: number[]): Record<string, any> }} Data
 * @typedef {{ epochs: number, batch: number, rate: number | null }} Plan
 * @typedef {{ round: number, done: boolean, digest: string, averaged: string[], plan: Plan }} Round
 */

const MOST_EPOCHS = 100;

/** An answer of the server that is an error, with the status of HTTP. */
export class ServerError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.name = "ServerError";
    this.status = status;
  }
}

export class Client {
  /**
   * @param {any} ort the module onnxruntime-web or onnxruntime-node
   * @param {string} server its address
   * @param {string} id of this client, under which the server counts it once a round
   * @param {{ token?: string, seed?: number, patience?: number, timeout?: number }} [options]
   *     `patience`: milliseconds in which a server that does not answer is asked again;
   *     `timeout`: of one request
   */
  constructor(ort, server, id, { token, seed = 0, patience = 60_000, timeout = 60_000 } = {}) {
    Object.assign(this, { ort, server, id, patience, timeout });
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.random = generator(seed);
  }

  /** Load the step from the server. */
  async open() {
    const model = async (name) => new Uint8Array(await this.#ask(`/files/${name}.onnx`));
    this.training = await TrainingStep.create(this.ort, await model("step"), await model("initial"));
  }

  /**
   * Take part in rounds until the server has made all of them; return how many of the updates were
   * counted.
   *
   * @param {Data} data
   */
  async takePart(data) {
    let counted = 0;
    let round = await this.round();
    while (!round.done) {
      try {
        await this.train(round, data);
        if (await this.send(round, data.count)) counted += 1;
      } catch (error) {
        if (error.status !== 409) throw error; // else the round ended without this client
      }
      round = await this.round(round.round);
    }
    return counted;
  }

  /**
   * Return the open round; after another one, as soon as that is over.
   *
   * @param {number} [after]
   * @returns {Promise<Round>}
   */
  async round(after = -1) {
    for (;;) {
      const round = JSON.parse(new TextDecoder().decode(await this.#ask(`/round?after=${after}`)));
      if (round.done || round.round !== after) return round;
    }
  }

  /**
   * Train in a round: its weights, a fresh state of the optimizer, the server's plan.
   *
   * @param {Round} round
   * @param {Data} data
   */
  async train(round, { count, batch }) {
    if (round.digest !== this.training.digest) await this.#reopen();
    await this.training.reset();
    await this.#seed();
    await this.load(round);
    const { epochs, batch: size, rate } = checked(round.plan);
    if (rate !== null) await this.training.setLearningRate(rate);
    for (let epoch = 0; epoch < epochs; epoch++) {
      const rows = shuffled(count, this.random);
      for (let at = 0; at < count; at += size || count) {
        const fetched = await this.training.run(batch(rows.slice(at, at + (size || count))));
        for (const tensor of Object.values(fetched)) tensor.dispose();
      }
    }
  }

  /**
   * Load the weights of a round, over what is there.
   *
   * @param {Round} round
   */
  async load(round) {
    const weights = new Uint8Array(await this.#ask(`/rounds/${round.round}/weights`));
    await this.training.load(weights, { partial: true });
  }

  /**
   * Send what is averaged; return whether it was counted, and not before already.
   *
   * @param {Round} round
   * @param {number} samples on which it was trained
   */
  async send({ round, averaged }, samples) {
    const names = averaged.map((name) => name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    const body = await this.training.save({ only: new RegExp(`^(${names.join("|")})$`) });
    const path = `/rounds/${round}/updates/${this.id}?samples=${samples}`;
    const answer = await this.#ask(path, { method: "PUT", body });
    return JSON.parse(new TextDecoder().decode(answer)).counted;
  }

  async #reopen() {
    await this.training.release();
    await this.open();
  }

  /** Draw other numbers, such as masks of dropout, than the other clients and rounds. */
  async #seed() {
    const seeds = this.training.state.random_seed;
    if (!seeds) return;
    const data = BigInt64Array.from(seeds.data, (value, k) =>
      k % 2 ? value : BigInt(Math.floor(this.random() * 2 ** 31)),
    );
    const random_seed = { type: "int64", dims: [...seeds.dims], data };
    await this.training.load(encode({ random_seed }), { partial: true });
  }

  /**
   * Ask the server, again while it does not answer, and return the bytes of its answer.
   *
   * @param {string} path
   * @param {RequestInit} [options]
   * @returns {Promise<ArrayBuffer>}
   */
  async #ask(path, options = {}) {
    const end = performance.now() + this.patience;
    for (let wait = 50; ; wait = Math.min(2 * wait, 2000)) {
      let problem;
      try {
        const signal = AbortSignal.timeout(this.timeout);
        const response = await fetch(this.server + path, { ...options, headers: this.headers, signal });
        if (response.ok) return await response.arrayBuffer();
        const text = await response.text();
        problem = new ServerError(response.status, `${response.status} ${text}`);
      } catch (error) {
        problem = error; // there is no answer
      }
      const isBusy = !(problem instanceof ServerError) || problem.status === 503;
      if (!isBusy || performance.now() > end) throw problem;
      await new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random())));
    }
  }
}

/**
 * Check a plan: no server keeps a device busy for ever.
 *
 * @param {Plan} plan
 */
function checked(plan) {
  const { epochs, batch, rate } = plan;
  const counts = Number.isInteger(epochs) && epochs <= MOST_EPOCHS && Number.isInteger(batch) && batch >= 0;
  if (!counts || (rate !== null && !Number.isFinite(rate))) {
    throw new RangeError(`the server's plan is none: ${JSON.stringify(plan)}`);
  }
  return plan;
}

/**
 * A generator of numbers in [0, 1) by a linear congruence of 48 bits, as that of drand48: the same
 * on every device.
 *
 * @param {number} seed
 */
export function generator(seed) {
  let x = BigInt(seed) * 65536n + 0x330en;
  return () => {
    x = (x * 0x5deece66dn + 11n) & 0xffffffffffffn;
    return Number(x) / 2 ** 48;
  };
}

/**
 * The numbers below `count` in a random order.
 *
 * @param {number} count
 * @param {() => number} random
 */
export function shuffled(count, random) {
  const rows = Array.from({ length: count }, (_, k) => k);
  for (let k = count - 1; k > 0; k--) {
    const other = Math.floor(random() * (k + 1));
    [rows[k], rows[other]] = [rows[other], rows[k]];
  }
  return rows;
}
