// Clients of a server in one process, each with a part of the digits of demos/data; or with
// --central one training on all of them, to compare with.
//
//     node simulate.js http://127.0.0.1:8080 --clients 20
//     node simulate.js --central files --epochs 5 --batch 20 --rate 0.1
//
// The last line of its output is JSON: the accuracy on the test digits, and the weights' file.

import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";

import { TrainingStep } from "../js/src/index.js";
import { Client, generator, shuffled } from "./client.js";
import { digits, part, parts } from "./digits.js";

const HERE = dirname(fileURLToPath(import.meta.url));
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    clients: { type: "string", default: "20" },
    digits: { type: "string", default: "4000" }, // of the training data, for all clients together
    uneven: { type: "boolean", default: false }, // each client has digits of few kinds
    central: { type: "string" }, // the folder of the models
    epochs: { type: "string", default: "5" },
    batch: { type: "string", default: "20" }, // 0 for all
    rate: { type: "string", default: "0.1" },
    out: { type: "string" }, // a file for the weights
  },
});
const modules = process.env.PD_NODE_MODULES ?? join(HERE, "node_modules");
const { InferenceSession, Tensor } = createRequire(join(modules, "of.js"))("onnxruntime-node");
// ONNX Runtime with one thread for each session: there are many
const create = (model, more) => InferenceSession.create(model, { ...more, intraOpNumThreads: 1 });
const ort = { Tensor, InferenceSession: { create } };

/** The digits of "train" or "t10k". */
async function read(name) {
  const folder = join(process.env.PD_DATASET_HOME ?? join(HERE, "../data"), "mnist");
  const file = async (kind) => gunzipSync(await readFile(join(folder, `${name}-${kind}-ubyte.gz`)));
  return digits(await file("images-idx3"), await file("labels-idx1"));
}

/** The training digits, cut into equal parts. */
async function shares(count) {
  const { digits: total, uneven } = options;
  return parts(ort, await read("train"), count, { total: Number(total), uneven });
}

async function accuracy(training, model) {
  const predict = await ort.InferenceSession.create(model);
  const data = await read("t10k");
  const all = part(ort, data, shuffled(data.labels.length, generator(0)));
  const { image, label } = all.batch(Array.from({ length: all.count }, (_, k) => k));
  const { probability } = await training.evaluate(predict, { image });
  let right = 0;
  for (let k = 0; k < all.count; k++) {
    const row = probability.data.subarray(10 * k, 10 * k + 10);
    if (row.indexOf(Math.max(...row)) === Number(label.data[k])) right += 1;
  }
  return right / all.count;
}

async function federated(server) {
  const data = await shares(Number(options.clients));
  const token = process.env.PD_FEDERATED_TOKEN;
  const clients = data.map((_, k) => new Client(ort, server, `client-${k}`, { seed: k + 1, token }));
  await Promise.all(clients.map((client) => client.open()));
  const counted = await Promise.all(clients.map((client, k) => client.takePart(data[k])));
  const [{ training }] = clients;
  await clients[0].load(await clients[0].round());
  const headers = clients[0].headers;
  const response = await fetch(`${server}/files/predict.onnx`, { headers });
  return { training, predict: new Uint8Array(await response.arrayBuffer()), counted };
}

async function central(folder) {
  const model = async (name) => new Uint8Array(await readFile(join(folder, `${name}.onnx`)));
  const training = await TrainingStep.create(ort, await model("step"), await model("initial"));
  await training.setLearningRate(Number(options.rate));
  const [{ count, batch }] = await shares(1);
  const size = Number(options.batch) || count;
  const random = generator(1);
  for (let epoch = 0; epoch < Number(options.epochs); epoch++) {
    const rows = shuffled(count, random);
    for (let at = 0; at < count; at += size) await training.run(batch(rows.slice(at, at + size)));
  }
  return { training, predict: await model("predict") };
}

const { training, predict, counted } = await (options.central
  ? central(options.central)
  : federated(positionals[0]));
if (options.out) await writeFile(options.out, await training.save());
console.log(JSON.stringify({ accuracy: await accuracy(training, predict), counted }));
