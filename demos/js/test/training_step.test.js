// node --test test/, with the folder of write_models.py in PD_MODELS and the packages of ONNX
// Runtime in PD_NODE_MODULES.

import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { decode, encode, FeedError, FileStore, metadata, StateError, TrainingStep } from "../src/index.js";

const { PD_MODELS = "models", PD_NODE_MODULES = "node_modules" } = process.env;
const RUNTIME = process.env.PD_RUNTIME ?? "onnxruntime-node";
const ort = createRequire(join(PD_NODE_MODULES, "of.js"))(RUNTIME);
ort.env.wasm.numThreads = 1;

const read = async (...names) => new Uint8Array(await readFile(join(PD_MODELS, ...names)));
const models = (name) => Promise.all(["step", "initial"].map((kind) => read(name, `${kind}.onnx`)));
const facts = JSON.parse(await readFile(join(PD_MODELS, "step", "facts.json"), "utf8"));
const create = async (name = "step") => TrainingStep.create(ort, ...(await models(name)));

const batches = facts.batches.map(({ x, label }) => ({
  x: new ort.Tensor("float32", Float32Array.from(x), [label.length, 6]),
  label: new ort.Tensor("int64", BigInt64Array.from(label, BigInt), [label.length]),
}));
const loss = async (training, batch) => (await training.run(batch)).cost.data[0];
const close = (found, wanted) => {
  assert.equal(found.length, wanted.length);
  found.forEach((value, k) => assert.ok(Math.abs(value - wanted[k]) < 1e-5, `${found}, ${wanted}`));
};
async function losses(training, from = 0, to = batches.length) {
  const found = [];
  for (const batch of batches.slice(from, to)) found.push(await loss(training, batch));
  return found;
}

test("steps are those of pd, one after the other or asked for at once", async () => {
  const training = await create();
  assert.deepEqual(training.feeds, ["x", "label"]);
  assert.deepEqual(training.fetches, ["cost"]);
  close(await losses(training), facts.losses);
  await training.reset();
  close(await Promise.all(batches.map((batch) => loss(training, batch))), facts.losses);
  await training.release();
});

test("a saved state goes on bit for bit", async () => {
  const training = await create();
  await losses(training, 0, 3);
  const bytes = await training.save();
  const wanted = await losses(training, 3);
  const other = await create();
  await other.load(bytes);
  assert.deepEqual(await losses(other, 3), wanted);
  assert.deepEqual(await other.save(), await training.save());
  await other.release();
  await training.release();
});

test("states that do not fit change nothing", async () => {
  const training = await create();
  const other = await create("other");
  assert.notEqual(training.digest, other.digest);
  await losses(training, 0, 2);
  const before = await training.save();
  const { arrays, metadata: entries } = decode(before);
  const without = Object.fromEntries(Object.entries(arrays).slice(1));
  const [first] = Object.keys(arrays);
  const wrong = { ...arrays, [first]: { type: "float32", dims: [1], data: new Float32Array(1) } };
  const cases = [
    [await other.save(), {}, /stale/],
    [await other.save(), { partial: true }, /“.+” is .+ in the saved state/],
    [encode(without, entries), {}, /lacks/],
    [encode(wrong, entries), {}, /is .* in the saved state/],
    [encode({ stranger: wrong[first] }, entries), { partial: true }, /no state “stranger”/],
    [before.subarray(0, before.length - 1), {}, /damaged/],
    [before.subarray(0, 30), {}, /cut off/],
    [new Uint8Array(3), {}, /cut off/],
    [Uint8Array.from(before, (byte, k) => (k === 8 ? 0 : byte)), {}, /header/],
  ];
  for (const [bytes, options, message] of cases) {
    const failed = (error) => error instanceof StateError && message.test(error.message);
    await assert.rejects(training.load(bytes, options), failed, String(message));
    assert.deepEqual(await training.save(), before);
  }
  close(await losses(training, 2), facts.losses.slice(2));
  await training.release();
  await other.release();
});

test("adapters are swapped", async () => {
  const training = await create();
  await losses(training, 0, 3);
  const adapters = await training.save({ only: /\.lora_[AB]$/ });
  assert.equal(Object.keys(decode(adapters).arrays).length, 4);
  const predict = await ort.InferenceSession.create(await read("step", "predict.onnx"));
  const { x } = batches[0];
  const probability = async () => [...(await training.evaluate(predict, { x })).probability.data];
  const trained = await probability();
  await training.reset();
  close(await probability(), facts.before);
  await training.load(adapters, { partial: true });
  assert.deepEqual(await probability(), trained);
  await assert.rejects(training.load(adapters), /lacks/);
  await training.release();
});

test("evaluation reads the weights between two steps", async () => {
  const training = await create();
  const predict = await ort.InferenceSession.create(await read("step", "predict.onnx"));
  const { x } = batches[0];
  const runs = batches.map((batch) => training.run(batch));
  const { probability } = await training.evaluate(predict, { x });
  close([...probability.data], facts.after);
  await Promise.all(runs);
  await training.release();
});

test("the learning rate is read and set", async () => {
  const training = await create();
  close([await training.learningRate], [0.1]);
  const before = await training.save({ only: /\.lora_[AB]$/ });
  await training.setLearningRate(0);
  await loss(training, batches[0]);
  assert.deepEqual(await training.save({ only: /\.lora_[AB]$/ }), before);
  await assert.rejects(training.setLearningRate(NaN), RangeError);
  await assert.rejects(training.setLearningRate(-1), RangeError);
  await training.release();
});

test("batches that do not fit change nothing", async () => {
  const training = await create();
  const [{ x, label }] = batches;
  const before = await training.save();
  for (const [batch, message] of [
    [{ x }, /lacks label; the step takes x, label/],
    [{ x, label, y: x }, /has y/],
  ]) {
    const failed = (error) => error instanceof FeedError && message.test(error.message);
    await assert.rejects(training.run(batch), failed);
  }
  const wide = new ort.Tensor("float32", new Float32Array(16), [8, 2]);
  await assert.rejects(training.run({ x: wide, label }));
  assert.deepEqual(await training.save(), before);
  close(await losses(training), facts.losses);
  await training.release();
});

test("a folder keeps states, and a page that is new goes on from there", async () => {
  const store = new FileStore(join(await mkdtemp(join(tmpdir(), "pd-")), "states"));
  const training = await create();
  assert.equal(await training.restore(store, "user"), false);
  await losses(training, 0, 3);
  await training.keep(store, "user");
  const wanted = await losses(training, 3);
  const again = await create();
  assert.equal(await again.restore(store, "user"), true);
  assert.deepEqual(await losses(again, 3), wanted);
  assert.deepEqual(await readdir(store.folder), ["user.safetensors"]);
  await store.delete("user");
  await store.delete("user");
  assert.equal(await store.get("user"), undefined);
  await assert.rejects(store.put("../user", new Uint8Array(1)), /no name of a file/);
  await training.release();
  await again.release();
});

test("a model that is no step, and bytes that are no model", async () => {
  const [step, initial] = await models("step");
  await assert.rejects(TrainingStep.create(ort, initial, initial), /no step of pd.export_step/);
  await assert.rejects(TrainingStep.create(ort, step.subarray(0, 999), initial), /no ONNX model/);
  assert.equal(metadata(step)["producer"], "pd");
});

test("arrays of all types survive", () => {
  const arrays = {
    a: { type: "float32", dims: [2, 1], data: Float32Array.of(1.5, -0) },
    b: { type: "int64", dims: [], data: BigInt64Array.of(-5n) },
    c: { type: "bool", dims: [3], data: Uint8Array.of(1, 0, 1) },
    d: { type: "float16", dims: [0, 4], data: new Uint16Array(0) },
    __proto__x: { type: "uint8", dims: [1], data: Uint8Array.of(7) },
  };
  const found = decode(encode(arrays, { key: "“value”" }));
  assert.deepEqual({ ...found.arrays }, arrays);
  assert.deepEqual(found.metadata, { key: "“value”" });
});
