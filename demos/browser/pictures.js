// Pictures as the network takes them: 3 colours x 32 x 32 numbers from 0 to 1.

export const SIDE = 32;
const THUMBNAIL = 96;

/** Return a square canvas with the middle of a picture on white. */
function square(picture, side) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, side, side);
  context.imageSmoothingQuality = "high";
  const { width, height } = picture;
  const least = Math.min(width, height);
  const [left, top] = [(width - least) / 2, (height - least) / 2];
  context.drawImage(picture, left, top, least, least, 0, 0, side, side);
  return canvas;
}

/** Return a canvas to show a picture small. */
export const thumbnail = (picture) => square(picture, THUMBNAIL);

/** Return the middle of a picture as numbers [3, SIDE, SIDE]. */
export function pixelsOf(picture) {
  const context = square(square(picture, THUMBNAIL), SIDE).getContext("2d");
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  const count = SIDE * SIDE;
  const pixels = new Float32Array(3 * count);
  for (let k = 0; k < count; k++) {
    for (let c = 0; c < 3; c++) pixels[c * count + k] = data[4 * k + c] / 255;
  }
  return pixels;
}

/** Return pixels moved by at most `most` in each direction; the border is repeated. */
export function shifted(pixels, most) {
  const random = () => Math.floor(Math.random() * (2 * most + 1)) - most;
  const [right, down] = [random(), random()];
  const inside = (value) => Math.min(Math.max(value, 0), SIDE - 1);
  const moved = new Float32Array(pixels.length);
  for (let c = 0, k = 0; c < 3; c++) {
    for (let y = 0; y < SIDE; y++) {
      const row = (c * SIDE + inside(y - down)) * SIDE;
      for (let x = 0; x < SIDE; x++, k++) moved[k] = pixels[row + inside(x - right)];
    }
  }
  return moved;
}

/** Return the picture in a file that the visitor chose; an Error in words if it holds none. */
export async function pictureOf(file) {
  try {
    return await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} is no picture that this browser can read.`);
  }
}

const SHAPES = {
  circle: (context, r) => context.arc(0, 0, r, 0, 2 * Math.PI),
  square: (context, r) => context.rect(-r * 0.85, -r * 0.85, r * 1.7, r * 1.7),
  triangle: (context, r) => {
    for (const k of [0, 1, 2]) context.lineTo(r * Math.sin(k * 2.094), -r * Math.cos(k * 2.094));
    context.closePath();
  },
};
export const EXAMPLES = Object.keys(SHAPES);

/** Return a drawing of one of EXAMPLES, of random size, place and turn. */
export function example(name) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = THUMBNAIL;
  const context = canvas.getContext("2d");
  const random = (low, high) => low + Math.random() * (high - low);
  context.translate(random(42, 54), random(42, 54));
  context.rotate(random(-0.25, 0.25));
  context.lineWidth = random(4, 9);
  context.lineJoin = "round";
  context.beginPath();
  SHAPES[name](context, random(18, 38));
  context.stroke();
  return canvas;
}
