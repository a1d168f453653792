// Training of a new head, or of the whole network, on a few pictures; prediction of others.

import { shifted, SIDE } from "./pictures.js";
import { forgetTraining, keepTraining, restoreTraining } from "./kept.js";
import { alone, fileBytes, loadRuntime, yieldToMessages } from "./runtime.js";
import { serve, tell } from "./service.js";
import { TrainingStep } from "../js/src/index.js";

const SIZE = 3 * SIDE * SIDE;
const CLASSES = 5; // of the head
const BATCH = 16;
const TEST_EVERY = 10; // steps
const KEEP_EVERY = 50; // steps
const SHIFT = 2; // pixels

let ort, step, predict, network;
let stepsMade = 0;
let stopping = false;

async function release() {
  await step?.release();
  await predict?.release();
  step = predict = undefined;
}

/**
 * Make a network with a new head, of which `tuned` says what is trained: "head" or "whole".
 *
 * The trainings of `forgotten` networks are removed. Return how many steps the one of this network
 * has made when the page was left, and why nothing can be kept, if so.
 */
async function load({ device, tuned, forgotten = [] }) {
  ort = await loadRuntime(device);
  const names = ["step.onnx", "initial.onnx", "predict.onnx"];
  const files = await Promise.all(names.map((name) => fileBytes(`${tuned}/${name}`)));
  await alone(async () => {
    await release();
    step = await TrainingStep.create(ort, files[0], files[1], { device });
    predict = await ort.InferenceSession.create(files[2], { executionProviders: [device] });
    network = tuned;
    stepsMade = 0;
  });
  const unkept = await orWhyNot(async () => {
    for (const name of forgotten) await forgetTraining(name);
    stepsMade = await alone(() => restoreTraining(network, step));
  });
  return { steps: stepsMade, unkept };
}

/** Do something with the database; return the words of its error, or an empty string. */
async function orWhyNot(job) {
  try {
    await job();
    return "";
  } catch (problem) {
    return problem?.message ?? String(problem);
  }
}

/** Keep the training as it is now; return why not, or an empty string. */
function keep() {
  return orWhyNot(() => alone(() => keepTraining(network, step, stepsMade)));
}

/** Return the feeds of pictures: their pixels, and which classes of the head are not used. */
function feeds(pictures, classes) {
  const pixels = new Float32Array(pictures.length * SIZE);
  const unused = new Float32Array(pictures.length * CLASSES);
  pictures.forEach((picture, k) => {
    pixels.set(picture, k * SIZE);
    unused.fill(1, k * CLASSES + classes, (k + 1) * CLASSES);
  });
  return {
    picture: new ort.Tensor("float32", pixels, [pictures.length, 3, SIDE, SIDE]),
    unused: new ort.Tensor("float32", unused, [pictures.length, CLASSES]),
  };
}

/** Return a random minibatch with as many pictures of each class, each moved a little. */
function minibatch(groups) {
  const kinds = Array.from({ length: BATCH }, (_, k) => k % groups.length);
  const pictures = kinds.map((kind) => {
    const group = groups[kind];
    return shifted(group[Math.floor(Math.random() * group.length)], SHIFT);
  });
  const labels = BigInt64Array.from(kinds, BigInt);
  const kind = new ort.Tensor("int64", labels, [BATCH, 1]);
  return { ...feeds(pictures, groups.length), kind };
}

/** Return a list of probabilities for each picture. */
async function probabilities(pictures, classes) {
  const inputs = { ...feeds(pictures, classes), ...step.inputsOf(predict) };
  const { probability } = await predict.run(inputs);
  return pictures.map((_, k) => probability.data.slice(k * CLASSES, k * CLASSES + classes));
}

/** Tell which share of the visitor's own pictures is classified as they said. */
async function report(groups) {
  let [right, all] = [0, 0];
  for (const [kind, group] of groups.entries()) {
    const found = await alone(() => probabilities(group, groups.length));
    right += found.filter((row) => row.indexOf(Math.max(...row)) === kind).length;
    all += group.length;
    await yieldToMessages();
  }
  tell("tested", { step: stepsMade, share: right / all });
}

/**
 * Train for some steps, or until `stop`, on groups of pictures by class.
 *
 * Return whether it was stopped, and why the training cannot be kept, if so.
 */
async function train({ steps, groups }) {
  const total = stepsMade + steps;
  let seconds = 0; // of a step, as a moving average
  stopping = false;
  await report(groups);
  while (stepsMade < total && !stopping) {
    const batch = minibatch(groups);
    const start = performance.now();
    const { cost } = await alone(() => step.run(batch));
    const took = (performance.now() - start) / 1000;
    seconds = seconds ? 0.9 * seconds + 0.1 * took : took;
    stepsMade += 1;
    tell("stepped", { step: stepsMade, total, loss: cost.data[0], speed: 1 / seconds });
    if (stepsMade % TEST_EVERY === 0 || stepsMade === total) await report(groups);
    if (stepsMade % KEEP_EVERY === 0) await keep();
    await yieldToMessages();
  }
  return { stopped: stopping, unkept: await keep() };
}

/** Return the probabilities of one picture. */
async function classify({ pixels, classes }) {
  return (await alone(() => probabilities([pixels], classes)))[0];
}

/** Return the tuned parameters: { name: { type, dims, data } }. */
function parameters() {
  return alone(async () => {
    const tensors = Object.entries(step.inputsOf(predict));
    const read = tensors.map(async ([name, tensor]) => {
      const { type, dims } = tensor;
      return [name, { type, dims, data: await tensor.getData() }];
    });
    return Object.fromEntries(await Promise.all(read));
  });
}

function stop() {
  stopping = true;
}

serve({ load, train, classify, parameters, stop, release: () => alone(release) });
