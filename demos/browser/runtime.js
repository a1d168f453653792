// ONNX Runtime for the web and the files of the page, with errors that say what to do.

const BUILDS = { wasm: "ort.wasm.bundle.min.mjs", webgpu: "ort.webgpu.bundle.min.mjs" };

/** Return why there is no WebGPU here, or an empty string. */
export async function whyNoGpu() {
  if (!navigator.gpu) return "this browser has no WebGPU, or not for pages without https";
  const adapter = await navigator.gpu.requestAdapter();
  return adapter ? "" : "the browser has WebGPU, but finds no graphics card that it can use";
}

/** Import the build of ONNX Runtime for `wasm` or `webgpu`. */
export async function loadRuntime(device) {
  const why = device === "webgpu" ? await whyNoGpu() : "";
  if (why) throw new Error(`No GPU: ${why}. Choose CPU instead.`);
  const url = new URL(`node_modules/onnxruntime-web/dist/${BUILDS[device]}`, import.meta.url);
  if (!(await fetch(url, { method: "HEAD" })).ok) {
    throw new Error(
      "ONNX Runtime is missing: run “npm install --ignore-scripts” in the folder of this page, then reload it.",
    );
  }
  const ort = await import(url);
  ort.env.wasm.numThreads = 1; // more threads need a cross-origin isolated page
  return ort;
}

/** Return the bytes of a file below files/. */
export async function fileBytes(name) {
  const response = await fetch(new URL(`files/${name}`, import.meta.url));
  if (!response.ok) {
    throw new Error(`files/${name} is missing: run write_files.py first, then reload this page.`);
  }
  return new Uint8Array(await response.arrayBuffer());
}

let last = Promise.resolve();

/** Run a job when all earlier ones have ended: sessions on a GPU must not run at the same time. */
export function alone(job) {
  const result = last.then(job);
  last = result.catch(() => {});
  return result;
}

const TURN = 50; // milliseconds
let turned = performance.now();

/** Let messages in, at most every 50 ms: a run on wasm resolves before the next message is read. */
export async function yieldToMessages() {
  if (performance.now() - turned < TURN) return;
  await new Promise((resolve) => setTimeout(resolve));
  turned = performance.now();
}
