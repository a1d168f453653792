// Training in the browser with the files that write_files.py exports. TrainingStep works with any
// exported step and any build of ONNX Runtime for JavaScript; the rest belongs to this page.

/** A training step with its state: parameters, optimizer slots and random seed. */
export class TrainingStep {
  constructor(session, state) {
    this.session = session;
    this.state = state;
  }

  /** Load the two models that pd.export_step writes; on a GPU the weights stay in its memory. */
  static async create(ort, step, initial, device) {
    const initialModel = await ort.InferenceSession.create(initial);
    const state = { ...(await initialModel.run({})) };
    await initialModel.release();
    const options = device ? { executionProviders: [device] } : {};
    if (device === "webgpu") {
      const floats = Object.keys(state).filter((name) => state[name].type === "float32");
      const locations = floats.map((name) => [`${name}_next`, "gpu-buffer"]);
      options.preferredOutputLocation = Object.fromEntries(locations);
    }
    return new TrainingStep(await ort.InferenceSession.create(step, options), state);
  }

  /** Run one step on a batch {name: Tensor}; return its fetches {name: Tensor}. */
  async run(batch) {
    const fetches = await this.session.run({ ...batch, ...this.state });
    for (const name of Object.keys(this.state)) {
      const next = `${name}_next`;
      if (!(next in fetches)) continue; // the step only reads it
      this.state[name].dispose();
      this.state[name] = fetches[next];
      delete fetches[next];
    }
    return fetches;
  }

  /** Return the part of the state that is an input of another model. */
  inputsOf(session) {
    const names = session.inputNames.filter((name) => name in this.state);
    return Object.fromEntries(names.map((name) => [name, this.state[name]]));
  }
}

const PIXELS = 28 * 28;

/** Images of digits and their labels, one byte per pixel and label. */
class Digits {
  constructor(ort, images, labels) {
    this.ort = ort;
    this.images = images;
    this.labels = labels;
  }

  /** Return these samples as inputs of a model. */
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

  /** Yield batches in random order, without an incomplete last batch. */
  *shuffled(size) {
    const order = [...this.labels.keys()];
    for (let k = order.length - 1; k > 0; k--) {
      const other = Math.floor(Math.random() * (k + 1));
      [order[k], order[other]] = [order[other], order[k]];
    }
    for (let k = 0; k + size <= order.length; k += size) yield this.batch(order.slice(k, k + size));
  }

  /** Yield batches of at most `size` samples in order. */
  *inOrder(size) {
    const order = [...this.labels.keys()];
    for (let k = 0; k < order.length; k += size) yield this.batch(order.slice(k, k + size));
  }
}

/** Plot the losses as a thin line, and their moving average as a thick one. */
export function draw(canvas, losses) {
  const { width, height } = canvas;
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, width, height);
  const top = Math.max(...losses.slice(0, 20), 0.1);
  const line = (values, color, thickness) => {
    context.beginPath();
    context.strokeStyle = color;
    context.lineWidth = thickness;
    values.forEach((value, k) => {
      const x = (k / Math.max(values.length - 1, 1)) * width;
      context.lineTo(x, height * (1 - Math.min(value / top, 1)));
    });
    context.stroke();
  };
  let mean = losses[0];
  line(losses, "#9bc", 1);
  line(losses.map((loss) => (mean = 0.9 * mean + 0.1 * loss)), "#036", 3);
}

async function bytes(name) {
  const response = await fetch(`files/${name}`);
  if (!response.ok) throw new Error(`files/${name} is missing: run write_files.py first`);
  return new Uint8Array(await response.arrayBuffer());
}

/** Load the models and the digits, for `wasm` or `webgpu`. */
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

/** Return the fraction of test digits that are classified wrongly. */
async function testError({ step, predict, test }) {
  let wrong = 0;
  for (const batch of test.inOrder(100)) {
    const inputs = { image: batch.image, ...step.inputsOf(predict) };
    const { probability } = await predict.run(inputs);
    batch.label.data.forEach((label, k) => {
      const row = probability.data.subarray(k * 10, k * 10 + 10);
      if (row.indexOf(Math.max(...row)) !== Number(label)) wrong += 1;
    });
  }
  return wrong / test.labels.length;
}

/** Train for some passes; call `report` with every loss, and with the error after each pass. */
export async function train(ort, device, passes, report) {
  const data = await load(ort, device);
  for (let pass = 1; pass <= passes; pass++) {
    for (const batch of data.train.shuffled(50)) {
      const { cost } = await data.step.run(batch);
      report({ loss: cost.data[0] });
    }
    report({ pass, error: await testError(data) });
  }
}
