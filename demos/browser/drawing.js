// A square to draw in with a mouse, a finger, a pen or the keyboard.

const SIZE = 280; // pixels of the canvas; the style sheet may show it smaller
const STEP = 10; // of the arrow keys

/** A <canvas> that is drawn in; `changed` is called after every change. */
export class DrawingPad {
  constructor(canvas, cursor, { changed, thickness = 20 }) {
    this.canvas = canvas;
    this.cursor = cursor;
    this.changed = changed;
    this.thickness = thickness;
    canvas.width = canvas.height = SIZE;
    this.context = canvas.getContext("2d", { willReadFrequently: true });
    this.pen = { x: SIZE / 2, y: SIZE / 2, down: false };
    this.empty = true;
    canvas.addEventListener("pointerdown", (event) => this.#press(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => this.#showCursor());
    canvas.addEventListener("blur", () => this.#showCursor());
  }

  /** Remove everything. */
  clear() {
    this.context.clearRect(0, 0, SIZE, SIZE);
    this.pen.down = false;
    this.empty = true;
    this.#showCursor();
    this.changed();
  }

  /** Show a picture, with its sides as they are, in place of the drawing. */
  show(picture, smooth = true) {
    this.context.clearRect(0, 0, SIZE, SIZE);
    const scale = SIZE / Math.max(picture.width, picture.height);
    const [width, height] = [picture.width * scale, picture.height * scale];
    this.context.imageSmoothingEnabled = smooth;
    const [left, top] = [(SIZE - width) / 2, (SIZE - height) / 2];
    this.context.drawImage(picture, left, top, width, height);
    this.empty = false;
    this.changed();
  }

  #line(from, to) {
    this.context.lineWidth = this.thickness;
    this.context.lineCap = this.context.lineJoin = "round";
    this.context.strokeStyle = "#000";
    this.context.beginPath();
    this.context.moveTo(from.x, from.y);
    this.context.lineTo(to.x, to.y);
    this.context.stroke();
    this.empty = false;
  }

  #at(event) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    return {
      x: ((event.clientX - left) / width) * SIZE,
      y: ((event.clientY - top) / height) * SIZE,
    };
  }

  #press(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.last = this.#at(event);
    this.#line(this.last, this.last);
    this.changed();
  }

  #move(event) {
    if (!(event.buttons & 1) || !this.last) return;
    for (const part of event.getCoalescedEvents?.() ?? [event]) {
      const point = this.#at(part);
      this.#line(this.last, point);
      this.last = point;
    }
    this.changed();
  }

  #key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Delete" || event.key === "Backspace") {
      this.clear();
    } else if (event.key === " ") {
      this.pen.down = !this.pen.down;
      this.#pen(0, 0);
    } else if (event.key in moves) {
      this.#pen(...moves[event.key]);
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Move the pen of the keyboard, which draws while it is down. */
  #pen(right, down) {
    const { x, y } = this.pen;
    const inside = (value) => Math.min(Math.max(value, 0), SIZE);
    this.pen.x = inside(x + right * STEP);
    this.pen.y = inside(y + down * STEP);
    if (this.pen.down) {
      this.#line({ x, y }, this.pen);
      this.changed();
    }
    this.#showCursor();
  }

  #showCursor() {
    this.cursor.hidden = !this.canvas.matches(":focus-visible");
    this.cursor.classList.toggle("down", this.pen.down);
    this.cursor.style.left = `${(this.pen.x / SIZE) * 100}%`;
    this.cursor.style.top = `${(this.pen.y / SIZE) * 100}%`;
  }
}

/** Return the box around the ink of a canvas, and its centre of mass; null without ink. */
function inkOf(canvas) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  let [left, top, right, bottom, mass, sumX, sumY] = [width, height, 0, 0, 0, 0, 0];
  for (let k = 3; k < data.length; k += 4) {
    if (!data[k]) continue;
    const [x, y] = [(k >> 2) % width, Math.floor((k >> 2) / width)];
    [left, right] = [Math.min(left, x), Math.max(right, x + 1)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y + 1)];
    mass += data[k];
    sumX += data[k] * (x + 0.5);
    sumY += data[k] * (y + 0.5);
  }
  return mass && { size: Math.max(right - left, bottom - top), x: sumX / mass, y: sumY / mass };
}

/**
 * Return a drawing as `side` x `side` numbers from 0 to 1, as MNIST's digits were made: scaled to
 * a box of 20/28 of the side, its centre of mass in the middle (LeCun et al. 1998).
 */
export function centredPixels(canvas, side) {
  const ink = inkOf(canvas);
  const pixels = new Float32Array(side * side);
  if (!ink) return pixels;
  const small = new OffscreenCanvas(side, side).getContext("2d");
  const scale = (side * 20) / 28 / ink.size;
  small.imageSmoothingQuality = "high";
  small.setTransform(scale, 0, 0, scale, side / 2 - scale * ink.x, side / 2 - scale * ink.y);
  small.drawImage(canvas, 0, 0);
  const { data } = small.getImageData(0, 0, side, side);
  return pixels.map((_, k) => data[4 * k + 3] / 255);
}

/** Return a canvas with one grey picture, as ink of that opacity. */
export function inkPicture(bytes, side) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  const picture = context.createImageData(side, side);
  bytes.forEach((value, k) => (picture.data[4 * k + 3] = value));
  context.putImageData(picture, 0, 0);
  return canvas;
}
