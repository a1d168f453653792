// Curves over training steps as an SVG: crisp at every resolution, coloured by the style sheet.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { top: 10, right: 14, bottom: 40, left: 64 };
const HEIGHT = 230;

/** Return about `count` round numbers from 0 to `top`, or a little beyond. */
export function ticks(top, count) {
  const rough = top / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const last = Math.ceil(top / step - 1e-9);
  return Array.from({ length: last + 1 }, (_, k) => Number((k * step).toPrecision(12)));
}

function node(parent, name, attributes = {}, text = "") {
  const element = parent.appendChild(document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

/**
 * A chart in a <figure>, with axes, ticks and a legend.
 *
 * `series` is [{ name, color, thin }]; `format` makes the text of a value on the vertical axis.
 */
export class Chart {
  constructor(figure, { title, x, y, series, format = String, top = 0 }) {
    Object.assign(this, { title, x, y, format, least: top });
    this.series = series.map((s) => ({ ...s, points: [] }));
    this.end = 0;
    this.waiting = false;
    this.#caption(figure);
    this.svg = node(figure, "svg", { role: "img", height: HEIGHT });
    new ResizeObserver(() => this.draw()).observe(figure);
    this.draw();
  }

  /** Add a point to the curve of this name. */
  add(name, x, y) {
    this.series.find((s) => s.name === name).points.push([x, y]);
    this.draw();
  }

  /** Make the horizontal axis reach this far, whatever has been drawn. */
  extend(end) {
    this.end = end;
    this.draw();
  }

  /** Remove all curves. */
  clear() {
    for (const s of this.series) s.points = [];
    this.extend(0);
  }

  /** Draw before the next frame. */
  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#drawNow();
    });
  }

  #caption(figure) {
    const caption = figure.appendChild(document.createElement("figcaption"));
    caption.appendChild(document.createElement("strong")).textContent = this.title;
    for (const { name, color, thin } of this.series) {
      const entry = caption.appendChild(document.createElement("span"));
      entry.className = thin ? "legend thin" : "legend";
      entry.dataset.color = color;
      entry.textContent = name;
    }
  }

  #drawNow() {
    const width = this.svg.parentElement.clientWidth;
    if (!width) return;
    const points = this.series.flatMap((s) => s.points);
    const yTicks = ticks(points.reduce((top, [, y]) => Math.max(top, y), this.least) || 1, 4);
    const xTop = Math.max(this.end, 10, ...points.slice(-1).map(([x]) => x));
    const xTicks = ticks(xTop, width < 420 ? 4 : 8).filter((x) => x <= xTop);
    const right = width - MARGIN.right;
    const bottom = HEIGHT - MARGIN.bottom;
    const xOf = (x) => MARGIN.left + (x / xTop) * (right - MARGIN.left);
    const yOf = (y) => bottom - (y / yTicks.at(-1)) * (bottom - MARGIN.top);

    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("aria-label", this.#words());
    this.svg.replaceChildren();
    for (const y of yTicks) {
      const at = yOf(y);
      node(this.svg, "path", { class: "grid", d: `M${MARGIN.left} ${at}H${right}` });
      const place = { class: "tick y", x: MARGIN.left - 8, y: at + 4 };
      node(this.svg, "text", place, this.format(y));
    }
    for (const x of xTicks) {
      const at = xOf(x);
      node(this.svg, "path", { class: "axis", d: `M${at} ${bottom}v5` });
      node(this.svg, "text", { class: "tick x", x: at, y: bottom + 18 }, x.toLocaleString("en"));
    }
    node(this.svg, "path", { class: "axis", d: `M${MARGIN.left} ${bottom}H${right}` });
    const middle = (MARGIN.left + right) / 2;
    node(this.svg, "text", { class: "tick x", x: middle, y: HEIGHT - 4 }, this.x);
    const turned = `translate(13 ${(MARGIN.top + bottom) / 2}) rotate(-90)`;
    node(this.svg, "text", { class: "tick x", transform: turned }, this.y);
    for (const s of this.series) this.#line(s, xOf, yOf);
  }

  /** Draw a curve, with a dot on each point while they are few. */
  #line({ points, color, thin }, xOf, yOf) {
    if (!points.length) return;
    const curve = points.map(([x, y]) => `${xOf(x).toFixed(1)} ${yOf(y).toFixed(1)}`);
    const group = node(this.svg, "g", { class: thin ? "curve thin" : "curve" });
    group.dataset.color = color;
    node(group, "path", { d: `M${curve.join("L")}` });
    const [x, y] = points.at(-1);
    if (!thin) node(group, "circle", { cx: xOf(x), cy: yOf(y), r: 4 });
  }

  /** What the curves show, for those who do not see them. */
  #words() {
    const drawn = this.series.filter((s) => s.points.length);
    const curves = drawn.map(({ name, points }) => {
      const [[, first]] = points;
      const [x, y] = points.at(-1);
      return `${name} from ${this.format(first)} to ${this.format(y)} after ${x} steps`;
    });
    return `${this.title}: ${curves.join("; ") || "nothing yet"}.`;
  }
}
