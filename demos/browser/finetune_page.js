// The page that fine-tunes an imported network on the visitor's pictures.

import { Chart } from "./chart.js";
import { Classes } from "./classes.js";
import * as controls from "./controls.js";
import { at, attempt, become, say } from "./controls.js";
import { DrawingPad } from "./drawing.js";
import { example, EXAMPLES, pictureOf, pixelsOf } from "./pictures.js";
import { Probabilities } from "./results.js";
import { download, safetensors } from "./safetensors.js";
import { Service } from "./service.js";

const { device, tuned, steps } = at("controls").elements;
const percent = (share) => `${Math.round(100 * share)} %`;
const EXAMPLES_EACH = 8;

const loss = new Chart(at("loss"), {
  title: "Loss",
  x: "step",
  y: "cross-entropy",
  series: [{ name: "minibatch of 16 pictures, each moved a little", color: 0 }],
});
const right = new Chart(at("right"), {
  title: "Classified as you said",
  x: "step",
  y: "share",
  top: 1,
  series: [{ name: "of the pictures it trains on", color: 1 }],
  format: percent,
});

let ready = false; // a network is loaded
let asked = 0; // counts classifications, so that late answers are dropped
const bars = new Probabilities(at("probabilities"), []);
const pad = new DrawingPad(at("pad"), at("cursor"), { changed: classify, thickness: 16 });
const classes = new Classes(at("classes"), {
  renamed: showClasses,
  removed: () => {
    showClasses();
    load();
  },
  failed: (words) => say(words, true),
  current: () => (pad.empty ? null : pad.canvas),
});
const service = new Service(new URL("finetune_worker.js", import.meta.url), { stepped, tested });

/** Load the network with a new head, and forget the curves of the one before. */
async function load() {
  become("loading");
  ready = false;
  say("Loading ONNX Runtime and the network …");
  for (const chart of [loss, right]) chart.clear();
  controls.clearProgress();
  await attempt(async () => {
    await service.call("load", { device: device.value, tuned: tuned.value });
    ready = true;
    become("idle");
    say("Ready. Add pictures to each class, then press Train.");
    classify();
  });
}

async function train() {
  const empty = classes.empty();
  if (empty.length) {
    say(`Add pictures first: ${empty.join(", ")} ${empty.length > 1 ? "have" : "has"} none.`, true);
    return;
  }
  become("training");
  say("Training.");
  await attempt(async () => {
    const values = { steps: Number(steps.value), groups: classes.pixels() };
    const { stopped } = await service.call("train", values);
    become("idle");
    say(`${stopped ? "Stopped" : "Done"}. Draw or choose a new picture to try it.`);
    classify();
  }, "Training ended: ");
}

function stepped(progress) {
  loss.extend(progress.total);
  right.extend(progress.total);
  loss.add(loss.series[0].name, progress.step, progress.loss);
  controls.showProgress(progress);
}

function tested({ step, share }) {
  right.add(right.series[0].name, step, share);
  at("now-right").textContent = percent(share);
  classify();
}

function showClasses() {
  bars.name(classes.names());
  classify();
}

/** Show what the network sees in the picture. */
async function classify() {
  const question = ++asked;
  if (!ready || pad.empty) {
    bars.show(null);
    at("reading").textContent = "";
    return;
  }
  await attempt(async () => {
    const values = { pixels: pixelsOf(pad.canvas), classes: classes.groups.length };
    const found = await service.call("classify", values);
    if (question === asked) at("reading").textContent = `Most likely ${bars.show(found)}.`;
  });
}

async function choose({ target }) {
  const [file] = target.files;
  if (!file) return;
  try {
    pad.show(await pictureOf(file));
  } catch (problem) {
    say(problem.message, true);
  }
  target.value = "";
}

function addExamples() {
  const drawn = (name) => Array.from({ length: EXAMPLES_EACH }, () => example(name));
  classes.replace(EXAMPLES.map((name) => [name, drawn(name)]));
}

function save() {
  return attempt(async () => {
    download(safetensors(await service.call("parameters")), "tuned.safetensors");
  });
}

at("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  train();
});
at("stop").addEventListener("click", () => service.call("stop"));
at("reset").addEventListener("click", load);
for (const select of [device, tuned]) select.addEventListener("change", load);
at("clear").addEventListener("click", () => pad.clear());
at("choose").addEventListener("change", choose);
at("add-class").addEventListener("click", () => classes.add());
at("remove-class").addEventListener("click", () => classes.removeLast());
at("examples").addEventListener("click", addExamples);
at("save").addEventListener("click", save);
window.addEventListener("pagehide", () => service.end());
window.addEventListener("pageshow", (event) => event.persisted && location.reload());

controls.explainInvalid(steps, "Steps");
controls.offerDevices(device, at("device-note"));
showClasses();
load();
