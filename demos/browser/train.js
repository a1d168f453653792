// Training in the browser from the files of write_files.py. TrainingStep works with any exported
// step and any build of ONNX Runtime for JavaScript; the rest is this page.

/** A training step, and the state that it carries from run to run. */
export class TrainingStep {
  constructor(session, state) {
    this.session = session;
    this.state = state;
  }

  /** From the two models that pd.export_step writes; on a GPU weights stay in its memory. */
  static async create(ort, step, initial, device) {
    const first = await ort.InferenceSession.create(initial);
    const state = { ...(await first.run({})) };
    await first.release();
    const options = device ? { executionProviders: [device] } : {};
    if (device === "webgpu") {
      const floats = Object.keys(state).filter((name) => state[name].type === "float32");
      const places = floats.map((name) => [`${name}_next`, "gpu-buffer"]);
      options.preferredOutputLocation = Object.fromEntries(places);
    }
    return new TrainingStep(await ort.InferenceSession.create(step, options), state);
  }

  /** One step on a batch {name: Tensor}: what the step fetches, {name: Tensor}. */
  async run(batch) {
    const fetches = await this.session.run({ ...batch, ...this.state });
    for (const name of Object.keys(this.state)) {
      const next = `${name}_next`;
      if (!(next in fetches)) continue; // only read by the step
      this.state[name].dispose();
      this.state[name] = fetches[next];
      delete fetches[next];
    }
    return fetches;
  }

  /** The part of the state that another model takes. */
  inputsOf(session) {
    const wanted = session.inputNames.filter((name) => name in this.state);
    return Object.fromEntries(wanted.map((name) => [name, this.state[name]]));
  }
}

const PIXELS = 28 * 28;

/** Images of digits and their labels, a byte each. */
class Digits {
  constructor(ort, images, labels) {
    this.ort = ort;
    this.images = images;
    this.labels = labels;
  }

  /** The rows as inputs of a model. */
  batch(rows) {
    const pixels = new Float32Array(rows.length * PIXELS);
    const labels = new BigInt64Array(rows.length);
    rows.forEach((row, k) => {
      for (let p = 0; p < PIXELS; p++) pixels[k * PIXELS + p] = this.images[row * PIXELS + p] / 255;
      labels[k] = BigInt(this.labels[row]);
    });
    return {
      image: new this.ort.Tensor("float32", pixels, [rows.length, PIXELS]),
      label: new this.ort.Tensor("int64", labels, [rows.length, 1]),
    };
  }

  /** All rows in random order, in batches of one size; a rest is left out. */
  *shuffled(size) {
    const order = [...this.labels.keys()];
    for (let k = order.length - 1; k > 0; k--) {
      const other = Math.floor(Math.random() * (k + 1));
      [order[k], order[other]] = [order[other], order[k]];
    }
    for (let k = 0; k + size <= order.length; k += size) yield this.batch(order.slice(k, k + size));
  }

  /** All rows in their order, in batches of at most one size. */
  *inOrder(size) {
    const order = [...this.labels.keys()];
    for (let k = 0; k < order.length; k += size) yield this.batch(order.slice(k, k + size));
  }
}

/** The losses so far as a line, and their running mean as a thick one. */
export function draw(canvas, losses) {
  const { width, height } = canvas;
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, height);
  const top = Math.max(...losses.slice(0, 20), 0.1);
  const line = (values, color, thickness) => {
    pen.beginPath();
    pen.strokeStyle = color;
    pen.lineWidth = thickness;
    values.forEach((value, k) => {
      const x = (k / Math.max(values.length - 1, 1)) * width;
      pen.lineTo(x, height * (1 - Math.min(value / top, 1)));
    });
    pen.stroke();
  };
  let mean = losses[0];
  line(losses, "#9bc", 1);
  line(losses.map((loss) => (mean = 0.9 * mean + 0.1 * loss)), "#036", 3);
}

async function bytes(name) {
  const answer = await fetch(`files/${name}`);
  if (!answer.ok) throw new Error(`files/${name} is not there: run write_files.py first`);
  return new Uint8Array(await answer.arrayBuffer());
}

/** Everything that the page trains with, on `wasm` or `webgpu`. */
async function load(ort, device) {
  const names = ["step.onnx", "initial.onnx", "predict.onnx"];
  const [step, initial, predict] = await Promise.all(names.map(bytes));
  const data = ["train.images", "train.labels", "test.images", "test.labels"];
  const [images, labels, testImages, testLabels] = await Promise.all(data.map(bytes));
  return {
    step: await TrainingStep.create(ort, step, initial, device),
    predict: await ort.InferenceSession.create(predict, { executionProviders: [device] }),
    train: new Digits(ort, images, labels),
    test: new Digits(ort, testImages, testLabels),
  };
}

/** The share of test digits that are read wrongly. */
async function testError({ step, predict, test }) {
  let wrong = 0;
  for (const batch of test.inOrder(100)) {
    const given = { image: batch.image, ...step.inputsOf(predict) };
    const { probability } = await predict.run(given);
    batch.label.data.forEach((label, k) => {
      const row = probability.data.subarray(k * 10, k * 10 + 10);
      if (row.indexOf(Math.max(...row)) !== Number(label)) wrong += 1;
    });
  }
  return wrong / test.labels.length;
}

/** Train for some passes; `report` is told every loss, and the error after each pass. */
export async function train(ort, device, passes, report) {
  const all = await load(ort, device);
  for (let pass = 1; pass <= passes; pass++) {
    for (const batch of all.train.shuffled(50)) {
      const { cost } = await all.step.run(batch);
      report({ loss: cost.data[0] });
    }
    report({ pass, error: await testError(all) });
  }
}
