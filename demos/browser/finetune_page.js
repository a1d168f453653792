// The page that fine-tunes an imported network on the visitor's pictures.

import { Chart } from "./chart.js";
import { Classes } from "./classes.js";
import * as controls from "./controls.js";
import { at, attempt, become, say } from "./controls.js";
import { DrawingPad } from "./drawing.js";
import { forgetClasses, keepClasses, keptClasses } from "./kept.js";
import { example, EXAMPLES, pictureOf, pixelsOf } from "./pictures.js";
import { Probabilities } from "./results.js";
import { Service } from "./service.js";
import { encode } from "../js/src/index.js";

const { device, tuned, steps } = at("controls").elements;
const percent = (share) => `${Math.round(100 * share)} %`;
const EXAMPLES_EACH = 8;
const NETWORKS = [...tuned.options].map(({ value }) => value);

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
    begin(NETWORKS);
  },
  changed: () => orSay(() => keepClasses(classes.stored())),
  failed: (words) => say(words, true),
  current: () => (pad.empty ? null : pad.canvas),
});
const service = new Service(new URL("finetune_worker.js", import.meta.url), { stepped, tested });

/**
 * Load the network with a new head, as its training was left; that of `forgotten` networks begins
 * anew. The curves of the one before go.
 */
async function begin(forgotten = []) {
  become("loading");
  ready = false;
  say("Loading ONNX Runtime and the network …");
  for (const chart of [loss, right]) chart.clear();
  controls.clearProgress();
  await attempt(async () => {
    const values = { device: device.value, tuned: tuned.value, forgotten };
    const { steps: made, unkept } = await service.call("load", values);
    ready = true;
    become("idle");
    const next = made
      ? `The network goes on as you left it, after ${made.toLocaleString("en")} steps.`
      : "Add pictures to each class, then press Train.";
    say(`Ready. ${next}${notKept(unkept)}`);
    classify();
  });
}

const notKept = (why) => (why ? ` Nothing is kept when you leave this page: ${why}` : "");

/** Do something with the browser's database, and say why it cannot be done. */
async function orSay(job) {
  try {
    return await job();
  } catch (problem) {
    say(notKept(problem.message).trim(), true);
  }
}

/** Show the classes that were there when the page was left. */
async function showKept() {
  const groups = await orSay(async () => {
    const kept = (await keptClasses()) ?? [];
    const bitmap = async (url) => createImageBitmap(await (await fetch(url)).blob());
    const pictures = kept.map(([, urls]) => Promise.all(urls.map(bitmap)));
    return Promise.all(kept.map(async ([name], k) => [name, await pictures[k]]));
  });
  if (groups?.length) classes.show(groups);
}

/** Forget pictures, classes and trainings. */
async function forget() {
  classes.clear();
  await orSay(forgetClasses);
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
    const { stopped, unkept } = await service.call("train", values);
    become("idle");
    const next = `Draw or choose a new picture to try it.${notKept(unkept)}`;
    say(`${stopped ? "Stopped" : "Done"}. ${next}`);
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

/** Let the visitor save the tuned parameters, with what was trained and the names of the classes. */
function save() {
  return attempt(async () => {
    const about = { tuned: tuned.value, classes: JSON.stringify(classes.names()) };
    download(encode(await service.call("parameters"), about), "tuned.safetensors");
  });
}

function download(bytes, name) {
  const blob = new Blob([bytes], { type: "application/octet-stream" });
  const link = Object.assign(document.createElement("a"), { download: name });
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

at("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  train();
});
at("stop").addEventListener("click", () => service.call("stop"));
at("reset").addEventListener("click", () => begin([tuned.value]));
for (const select of [device, tuned]) select.addEventListener("change", () => begin());
at("clear").addEventListener("click", () => pad.clear());
at("choose").addEventListener("change", choose);
at("add-class").addEventListener("click", () => classes.add());
at("remove-class").addEventListener("click", () => classes.removeLast());
at("examples").addEventListener("click", addExamples);
at("forget").addEventListener("click", forget);
at("save").addEventListener("click", save);
window.addEventListener("pagehide", () => service.end());
window.addEventListener("pageshow", (event) => event.persisted && location.reload());

controls.explainInvalid(steps, "Steps");
controls.offerDevices(device, at("device-note"));
become("loading");
await showKept();
showClasses();
begin();
