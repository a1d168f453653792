export { FeedError, StateError } from "./errors.js";
export { metadata } from "./metadata.js";
export { decode, encode } from "./safetensors.js";
export { BrowserStore, FileStore } from "./stores.js";
export { TrainingStep } from "./training_step.js";
