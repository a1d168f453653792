// What both pages have: a status line, controls that are enabled by state, the choice of a device.

import { whyNoGpu } from "./runtime.js";

export const at = (id) => document.getElementById(id);

/** Show a sentence in the status line, which screen readers say. */
export function say(text, isProblem = false) {
  at("status").textContent = text;
  at("status").classList.toggle("problem", isProblem);
}

/**
 * Enable the controls whose attribute data-when names this state.
 *
 * The states are "loading"; "idle", where training can begin; "training"; "broken", after an error.
 */
export function become(state) {
  document.body.dataset.state = state;
  at("reading").ariaLive = state === "training" ? "off" : "polite"; // it changes all the time
  for (const control of document.querySelectorAll("[data-when]")) {
    control.disabled = !control.dataset.when.split(" ").includes(state);
  }
}

/** Do something that may fail, and show the error as a problem. */
export async function attempt(job, before = "") {
  try {
    await job();
  } catch (problem) {
    become("broken");
    say(before + problem.message, true);
  }
}

/** Disable the GPU in a <select> where there is none, and say why in its note. */
export async function offerDevices(select, note) {
  const why = await whyNoGpu();
  if (!why) return;
  select.querySelector("[value=webgpu]").disabled = true;
  note.textContent = `No GPU here: ${why}.`;
}

/** Say what is wrong with a number field when its form is not submitted for it. */
export function explainInvalid(field, name) {
  field.addEventListener("invalid", () => say(`${name}: ${field.validationMessage}`, true));
}

/** Show how far a training is. */
export function showProgress({ step, total, speed, loss }) {
  at("step").textContent = `${step.toLocaleString("en")} of ${total.toLocaleString("en")}`;
  at("speed").textContent = speed.toFixed(speed < 10 ? 1 : 0);
  at("now-loss").textContent = loss.toFixed(3);
  at("progress").max = total;
  at("progress").value = step;
}

/** Forget how far it was. */
export function clearProgress() {
  for (const cell of document.querySelectorAll("dd")) cell.textContent = "–";
  at("progress").value = 0;
}
