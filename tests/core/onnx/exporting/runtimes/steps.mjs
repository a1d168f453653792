// The losses of exported steps on any build of ONNX Runtime for JavaScript.

import { TrainingStep } from "../../../../../demos/js/src/index.js";

const ARRAYS = { float32: Float32Array, int64: BigInt64Array };

/** A tensor from {type, dims, data}. */
function tensor(ort, { type, dims, data }) {
  const values = type === "int64" ? data.map(BigInt) : data;
  return new ort.Tensor(type, ARRAYS[type].from(values), dims);
}

/** The first fetch of every run; read(name) gives the bytes of a file of the step's folder. */
export async function losses(ort, read, device) {
  const [step, initial, batches] = await Promise.all(
    ["step.onnx", "initial.onnx", "batches.json"].map(read),
  );
  const training = await TrainingStep.create(ort, step, initial, { device });
  const found = [];
  for (const batch of JSON.parse(new TextDecoder().decode(batches))) {
    const feeds = Object.entries(batch).map(([name, array]) => [name, tensor(ort, array)]);
    const [loss] = Object.values(await training.run(Object.fromEntries(feeds)));
    found.push(loss.data[0]);
  }
  await training.release();
  return found;
}
