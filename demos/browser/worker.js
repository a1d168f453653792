// Training and prediction, outside the page's thread, so that the page stays responsive.

import { Digits, PIXELS } from "./digits.js";
import { alone, fileBytes, loadRuntime, yieldToMessages } from "./runtime.js";
import { serve, tell } from "./service.js";
import { TrainingStep } from "../js/src/index.js";

const BATCH = 50;
const TEST_EVERY = 20; // steps
const CLASSES = 10;

let files; // bytes of the three models
let train, test; // Digits
let ort, device, step, predict; // what is released and made anew by `load`
let stepsMade = 0;
let stopping = false;

async function readFiles() {
  const models = ["step.onnx", "initial.onnx", "predict.onnx"];
  const data = ["train.images", "train.labels", "test.images", "test.labels"];
  files = await Promise.all(models.map(fileBytes));
  const [images, labels, testImages, testLabels] = await Promise.all(data.map(fileBytes));
  train = new Digits(images, labels);
  test = new Digits(testImages, testLabels);
}

async function release() {
  await step?.release();
  await predict?.release();
  step = predict = undefined;
}

/** Make a network with its initial state for a device; return the test digits. */
async function load(wanted) {
  ort = await loadRuntime(wanted.device);
  if (!files) await readFiles();
  await alone(async () => {
    await release();
    ({ device } = wanted);
    const [stepModel, initial, predictModel] = files;
    step = await TrainingStep.create(ort, stepModel, initial, { device });
    predict = await ort.InferenceSession.create(predictModel, { executionProviders: [device] });
    stepsMade = 0;
  });
  return { images: test.images, labels: test.labels };
}

/** Return the probabilities [n, 10] of images. */
async function probabilities(image) {
  const { probability } = await predict.run({ image, ...step.inputsOf(predict) });
  return probability.data;
}

const largest = (row) => row.indexOf(Math.max(...row));

/** Tell the classes that are predicted for the test digits, and how many are wrong. */
async function report() {
  const predicted = new Uint8Array(test.labels.length);
  for (const rows of test.inOrder(100)) {
    const { image } = test.batch(ort, rows);
    const found = await alone(() => probabilities(image));
    rows.forEach((row, k) => {
      predicted[row] = largest(found.subarray(k * CLASSES, (k + 1) * CLASSES));
    });
    await yieldToMessages();
  }
  const wrong = predicted.filter((digit, row) => digit !== test.labels[row]).length;
  tell("tested", { step: stepsMade, error: wrong / predicted.length, predicted });
}

/** Train for some passes, or until `stop`; return whether it was stopped. */
async function run({ passes }) {
  const stepsPerPass = Math.floor(train.labels.length / BATCH);
  const total = stepsMade + passes * stepsPerPass;
  let seconds = 0; // of a step, as a moving average
  stopping = false;
  if (stepsMade === 0) await report();
  for (let pass = 0; pass < passes && !stopping; pass++) {
    for (const rows of train.shuffled(BATCH)) {
      const batch = train.batch(ort, rows);
      const start = performance.now();
      const { cost } = await alone(() => step.run(batch));
      const took = (performance.now() - start) / 1000;
      seconds = seconds ? 0.9 * seconds + 0.1 * took : took;
      stepsMade += 1;
      tell("stepped", { step: stepsMade, total, loss: cost.data[0], speed: 1 / seconds });
      if (stepsMade % TEST_EVERY === 0) await report();
      await yieldToMessages();
      if (stopping) break;
    }
  }
  if (stepsMade % TEST_EVERY) await report();
  return { stopped: stopping };
}

/** Return the probabilities of one image, 784 numbers from 0 to 1. */
function classify({ pixels }) {
  const image = new ort.Tensor("float32", pixels, [1, PIXELS]);
  return alone(() => probabilities(image));
}

function stop() {
  stopping = true;
}

serve({ load, train: run, classify, stop, release: () => alone(release) });
