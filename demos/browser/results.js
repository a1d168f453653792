// What a network says, as lists: probabilities of one picture, predictions of many.

import { PIXELS, SIDE } from "./digits.js";
import { inkPicture } from "./drawing.js";

const percent = (p) => `${(100 * p).toFixed(p > 0.995 || p < 0.0005 ? 0 : 1)} %`;

/** Bars of the probabilities of classes in a <ul>. */
export class Probabilities {
  constructor(list, names) {
    this.list = list;
    this.rows = [];
    this.name(names);
  }

  /** Show these classes, without probabilities. */
  name(names) {
    this.names = names;
    this.list.replaceChildren();
    this.rows = names.map((name) => {
      const row = this.list.appendChild(document.createElement("li"));
      const [label, bar, value] = ["label", "bar", "value"].map((part) => {
        const span = row.appendChild(document.createElement("span"));
        span.className = part;
        return span;
      });
      label.textContent = name;
      return { row, value, bar: bar.appendChild(document.createElement("span")) };
    });
    this.show(null);
  }

  /** Show probabilities, or none; return the likeliest class in words. */
  show(probabilities) {
    const best = probabilities ? probabilities.indexOf(Math.max(...probabilities)) : -1;
    this.rows.forEach(({ row, bar, value }, k) => {
      const p = probabilities ? probabilities[k] : 0;
      bar.style.width = `${100 * p}%`;
      value.textContent = probabilities ? percent(p) : "–";
      row.classList.toggle("best", k === best);
    });
    return probabilities ? `${this.names[best]}, ${percent(probabilities[best])}` : "";
  }
}

const SHOWN = 56;

/** Test digits with their predictions in a <ul>, wrong ones marked. */
export class Gallery {
  constructor(list, summary) {
    this.list = list;
    this.summary = summary;
    this.onlyWrong = false;
  }

  /** Take the digits that are shown from now on. */
  load({ images, labels }) {
    this.images = images;
    this.labels = labels;
    this.predicted = null;
    this.draw();
  }

  /** Show the classes that a network predicts for all of the digits. */
  show(predicted) {
    this.predicted = predicted;
    this.draw();
  }

  /** Show only the digits that are read wrongly, or the first ones. */
  filter(onlyWrong) {
    this.onlyWrong = onlyWrong;
    this.draw();
  }

  draw() {
    const isWrong = (row) => this.predicted !== null && this.predicted[row] !== this.labels[row];
    const rows = [...this.labels.keys()];
    const wrong = rows.filter(isWrong);
    const chosen = (this.onlyWrong && this.predicted ? wrong : rows).slice(0, SHOWN);
    this.list.replaceChildren(...chosen.map((row) => this.#digit(row, isWrong(row))));
    const count = rows.length.toLocaleString("en");
    this.summary.textContent = this.predicted
      ? `${wrong.length} of ${count} test digits are read wrongly; ${chosen.length} are shown.`
      : `${chosen.length} of ${count} test digits, which the network never trains on.`;
  }

  /** Return an <li> with a digit and what the network reads. */
  #digit(row, wrong) {
    const item = document.createElement("li");
    const picture = inkPicture(this.images.subarray(row * PIXELS, (row + 1) * PIXELS), SIDE);
    const text = document.createElement("span");
    const label = this.labels[row];
    picture.className = "ink";
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `a handwritten ${label}`);
    if (this.predicted) {
      const read = this.predicted[row];
      item.className = wrong ? "wrong" : "right";
      text.textContent = wrong ? `✗ ${read}, is ${label}` : `${read}`;
      text.setAttribute("aria-label", wrong ? `read as ${read}, which is wrong` : `read as ${read}`);
      text.setAttribute("role", "img");
    }
    item.append(picture, text);
    return item;
  }
}
