// Works with every step that pd.export_step writes, and with every build of ONNX Runtime for
// JavaScript.

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

  /** Free the session and the state. */
  async release() {
    for (const tensor of Object.values(this.state)) tensor.dispose();
    this.state = {};
    await this.session.release();
  }
}
