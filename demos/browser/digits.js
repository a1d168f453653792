// The digits that write_files.py writes: one byte per pixel and label.

export const SIDE = 28;
export const PIXELS = SIDE * SIDE;

/** Images of digits and their labels. */
export class Digits {
  constructor(images, labels) {
    this.images = images;
    this.labels = labels;
  }

  /** Return these samples as inputs of a model. */
  batch(ort, rows) {
    const pixels = new Float32Array(rows.length * PIXELS);
    const labels = new BigInt64Array(rows.length);
    rows.forEach((row, k) => {
      for (let p = 0; p < PIXELS; p++) pixels[k * PIXELS + p] = this.images[row * PIXELS + p] / 255;
      labels[k] = BigInt(this.labels[row]);
    });
    return {
      image: new ort.Tensor("float32", pixels, [rows.length, PIXELS]),
      label: new ort.Tensor("int64", labels, [rows.length, 1]),
    };
  }

  /** Yield the rows of batches in random order, without an incomplete last batch. */
  *shuffled(size) {
    const order = [...this.labels.keys()];
    for (let k = order.length - 1; k > 0; k--) {
      const other = Math.floor(Math.random() * (k + 1));
      [order[k], order[other]] = [order[other], order[k]];
    }
    for (let k = 0; k + size <= order.length; k += size) yield order.slice(k, k + size);
  }

  /** Yield the rows of batches of at most `size` samples in order. */
  *inOrder(size) {
    const order = [...this.labels.keys()];
    for (let k = 0; k < order.length; k += size) yield order.slice(k, k + size);
  }
}
