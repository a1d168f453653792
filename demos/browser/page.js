// The page that trains on digits: its controls, and what they show.

import { Chart } from "./chart.js";
import * as controls from "./controls.js";
import { at, attempt, become, say } from "./controls.js";
import { PIXELS, SIDE } from "./digits.js";
import { centredPixels, DrawingPad, inkPicture } from "./drawing.js";
import { Gallery, Probabilities } from "./results.js";
import { Service } from "./service.js";

const { device, passes } = at("controls").elements;
const percent = (share) => `${Number((100 * share).toFixed(1))} %`;

const loss = new Chart(at("loss"), {
  title: "Loss",
  x: "step",
  y: "cross-entropy",
  series: [
    { name: "minibatch", color: 0, thin: true },
    { name: "moving average", color: 0 },
  ],
});
const error = new Chart(at("error"), {
  title: "Test error",
  x: "step",
  y: "read wrongly",
  series: [{ name: "of 1,000 test digits", color: 1 }],
  format: percent,
});
const gallery = new Gallery(at("digits"), at("summary"));
const bars = new Probabilities(at("probabilities"), [..."0123456789"]);
const pad = new DrawingPad(at("pad"), at("cursor"), { changed: classify });

let test; // { images, labels }
let ready = false; // a network is loaded
let average; // { sum, weight } of the moving average of the loss
let asked = 0; // counts classifications, so that late answers are dropped

const service = new Service(new URL("worker.js", import.meta.url), { stepped, tested });

/** Load a new network, and forget the curves of the one before. */
async function load() {
  become("loading");
  ready = false;
  say("Loading ONNX Runtime and the network …");
  for (const chart of [loss, error]) chart.clear();
  average = { sum: 0, weight: 0 };
  controls.clearProgress();
  await attempt(async () => {
    test = await service.call("load", { device: device.value });
    gallery.load(test);
    ready = true;
    become("idle");
    say("Ready. Nothing is learned yet: press Train.");
    classify();
  });
}

async function train() {
  become("training");
  say("Training.");
  await attempt(async () => {
    const { stopped } = await service.call("train", { passes: Number(passes.value) });
    become("idle");
    const result = `Test error ${at("now-error").textContent}.`;
    say(`${stopped ? "Stopped" : "Done"}. ${result} Train goes on from here, Reset starts over.`);
  }, "Training ended: ");
}

function stepped({ step, total, loss: value, speed }) {
  average = { sum: 0.9 * average.sum + 0.1 * value, weight: 0.9 * average.weight + 0.1 };
  const mean = average.sum / average.weight;
  loss.extend(total);
  error.extend(total);
  loss.add("minibatch", step, value);
  loss.add("moving average", step, mean);
  controls.showProgress({ step, total, speed, loss: mean });
}

function tested({ step, error: share, predicted }) {
  error.add("of 1,000 test digits", step, share);
  at("now-error").textContent = percent(share);
  gallery.show(predicted);
  classify();
}

/** Show what the network reads in the drawing. */
async function classify() {
  const question = ++asked;
  if (!ready || pad.empty) {
    bars.show(null);
    at("reading").textContent = "";
    return;
  }
  await attempt(async () => {
    const pixels = centredPixels(pad.canvas, SIDE);
    const found = await service.call("classify", { pixels });
    if (question === asked) at("reading").textContent = `Looks like a ${bars.show(found)}.`;
  });
}

function showSample() {
  const row = Math.floor(Math.random() * test.labels.length);
  pad.show(inkPicture(test.images.subarray(row * PIXELS, (row + 1) * PIXELS), SIDE));
}

at("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  train();
});
at("stop").addEventListener("click", () => service.call("stop"));
at("reset").addEventListener("click", load);
device.addEventListener("change", load);
at("only-wrong").addEventListener("change", (event) => gallery.filter(event.target.checked));
at("clear").addEventListener("click", () => pad.clear());
at("sample").addEventListener("click", showSample);
window.addEventListener("pagehide", () => service.end());
window.addEventListener("pageshow", (event) => event.persisted && location.reload());

controls.explainInvalid(passes, "Passes");
controls.offerDevices(device, at("device-note"));
load();
