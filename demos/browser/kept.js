// What stays in the browser's database when the page is left: the classes, and how far the training is.

import { BrowserStore, StateError } from "../js/src/index.js";

const CLASSES = "classes";
const stepsOf = (network) => `${network}.steps`;
const store = new BrowserStore("pd-fine-tuning");

function put(name, value) {
  return store.put(name, new TextEncoder().encode(JSON.stringify(value)));
}

async function get(name) {
  const bytes = await store.get(name);
  return bytes && JSON.parse(new TextDecoder().decode(bytes));
}

/** Keep the classes: names, and their pictures as URLs with data. */
export const keepClasses = (groups) => put(CLASSES, groups);

/** Return the classes that were kept; undefined if there are none. */
export const keptClasses = () => get(CLASSES);

export const forgetClasses = () => store.delete(CLASSES);

/** Keep the state of a network's training step. */
export async function keepTraining(network, step, steps) {
  await step.keep(store, network);
  await put(stepsOf(network), steps);
}

/**
 * Go on where the training of a network was left. Return how many steps it had made, 0 if none were
 * kept. A state that is none of this step, as after an update of the page, is forgotten.
 */
export async function restoreTraining(network, step) {
  try {
    return (await step.restore(store, network)) ? ((await get(stepsOf(network))) ?? 0) : 0;
  } catch (problem) {
    if (!(problem instanceof StateError)) throw problem;
    await forgetTraining(network);
    return 0;
  }
}

export async function forgetTraining(network) {
  await store.delete(network);
  await store.delete(stepsOf(network));
}
