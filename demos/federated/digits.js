// The digits of demos/data as the data of clients, for Node and browsers.

import { generator, shuffled } from "./client.js";

/**
 * Pixels from 0 to 1 and labels, from the contents of two files of MNIST.
 *
 * @param {Uint8Array} images
 * @param {Uint8Array} labels
 */
export function digits(images, labels) {
  return { images: Float32Array.from(images.subarray(16), (v) => v / 255), labels: labels.subarray(8) };
}

/**
 * The data of a client: these rows of the digits.
 *
 * @param {any} ort the module onnxruntime-web or onnxruntime-node
 * @param {ReturnType<typeof digits>} data
 * @param {number[]} chosen
 */
export function part(ort, { images, labels }, chosen) {
  const batch = (rows) => {
    const image = new Float32Array(rows.length * 784);
    const label = new BigInt64Array(rows.length);
    rows.forEach((row, k) => {
      const at = chosen[row];
      image.set(images.subarray(784 * at, 784 * at + 784), 784 * k);
      label[k] = BigInt(labels[at]);
    });
    return {
      image: new ort.Tensor("float32", image, [rows.length, 784]),
      label: new ort.Tensor("int64", label, [rows.length]),
    };
  };
  return { count: chosen.length, batch };
}

/**
 * Cut the first `total` digits into equal parts of `count` clients, in an order that is the same on
 * every device; uneven ones are cut from the digits by their kind.
 *
 * @param {any} ort
 * @param {ReturnType<typeof digits>} data
 * @param {number} count
 * @param {{ total: number, uneven?: boolean }} options
 */
export function parts(ort, data, count, { total, uneven = false }) {
  const rows = shuffled(total, generator(0));
  if (uneven) rows.sort((a, b) => data.labels[a] - data.labels[b]);
  const size = Math.floor(rows.length / count);
  return Array.from({ length: count }, (_, k) => part(ort, data, rows.slice(k * size, (k + 1) * size)));
}
