// node node.mjs NODE_MODULES PACKAGE FOLDER...: a line of JSON with the losses of each step.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

import { losses } from "./steps.mjs";

const [modules, name, ...folders] = process.argv.slice(2);
const ort = createRequire(join(modules, "of.js"))(name);
ort.env.wasm.numThreads = 1;
for (const folder of folders) {
  const read = async (file) => new Uint8Array(await readFile(join(folder, file)));
  console.log(JSON.stringify(await losses(ort, read)));
}
