// The classes of the visitor, each with a name and some pictures.

import { pictureOf, pixelsOf, thumbnail } from "./pictures.js";

const LEAST = 2;
const MOST = 5;

function element(parent, name, properties = {}) {
  return parent.appendChild(Object.assign(document.createElement(name), properties));
}

/**
 * The classes, as cards in a container. The others are functions: `renamed` and `removed` tell of
 * changes of classes, `changed` of any of them or of their pictures.
 */
export class Classes {
  constructor(container, { renamed, removed, changed, failed, current }) {
    Object.assign(this, { container, renamed, removed, changed, failed, current });
    this.groups = [];
    for (let k = 0; k < LEAST; k++) this.#card();
  }

  /** Return the names of the classes. */
  names() {
    return this.groups.map(({ name }, k) => name.value.trim() || `class ${k + 1}`);
  }

  /** Return the pixels of the pictures by class. */
  pixels() {
    return this.groups.map(({ pictures }) => pictures.map(({ pixels }) => pixels));
  }

  /** Return the names of classes without pictures. */
  empty() {
    return this.names().filter((_, k) => !this.groups[k].pictures.length);
  }

  /** Return names and pictures, which `show` takes: [[name, [URL of a picture]]]. */
  stored() {
    return this.groups.map(({ name, pictures }) => {
      return [name.value, pictures.map(({ shown }) => shown.toDataURL())];
    });
  }

  /** Add a class without pictures, unless there are five. */
  add() {
    if (this.groups.length === MOST) return this.failed(`There are ${MOST} classes at most.`);
    this.#card();
    this.renamed();
    this.changed();
  }

  /** Remove the last class, unless only two are left. */
  removeLast() {
    if (this.groups.length === LEAST) return this.failed(`There are ${LEAST} classes at least.`);
    this.groups.pop().card.remove();
    this.removed();
    this.changed();
  }

  /** Show these classes, with pictures (canvases or bitmaps), in place of all others. */
  show(groups) {
    for (const { card } of this.groups) card.remove();
    this.groups = [];
    for (const [name, pictures] of groups) this.#put(this.#card(name), pictures);
  }

  /** Show other classes, of which the network knows nothing yet. */
  replace(groups) {
    this.show(groups);
    this.removed();
    this.changed();
  }

  /** Forget all classes and pictures. */
  clear() {
    this.replace(Array.from({ length: LEAST }, () => ["", []]));
  }

  #card(title = "") {
    const number = this.groups.length + 1;
    const card = element(this.container, "fieldset", { className: "card" });
    element(card, "legend", { textContent: `Class ${number}` });
    const label = element(card, "label", { textContent: "Name " });
    const value = title || `class ${number}`;
    const name = element(label, "input", { type: "text", value, maxLength: 30 });
    const list = element(card, "ul", { className: "thumbnails" });
    const group = { card, name, list, pictures: [] };
    name.addEventListener("input", () => {
      this.renamed();
      this.changed();
    });
    const buttons = element(card, "p", { className: "buttons" });
    this.#button(buttons, "Add this picture", () => this.#take(group, [this.current()]));
    const chooser = element(buttons, "label", { className: "file", textContent: "Add files" });
    const file = element(chooser, "input", { type: "file", accept: "image/*", multiple: true });
    file.setAttribute("aria-label", `Add files to class ${number}`);
    file.addEventListener("change", () => this.#files(group, file));
    this.groups.push(group);
    this.#redraw(group);
    return group;
  }

  #button(parent, textContent, pressed) {
    const button = element(parent, "button", { type: "button", textContent });
    button.addEventListener("click", pressed);
    return button;
  }

  async #files(group, input) {
    for (const file of input.files) {
      try {
        this.#take(group, [await pictureOf(file)]);
      } catch (problem) {
        this.failed(problem.message);
      }
    }
    input.value = "";
  }

  #take(group, pictures) {
    if (!pictures.every(Boolean)) return this.failed("Draw or choose a picture first.");
    this.#put(group, pictures);
    this.changed();
  }

  #put(group, pictures) {
    for (const picture of pictures) {
      group.pictures.push({ shown: thumbnail(picture), pixels: pixelsOf(picture) });
    }
    this.#redraw(group);
  }

  #redraw(group) {
    const { list, pictures } = group;
    list.replaceChildren();
    pictures.forEach((picture, k) => {
      const button = this.#button(element(list, "li"), "", () => {
        group.pictures = pictures.filter((other) => other !== picture);
        this.#redraw(group);
        this.changed();
      });
      button.setAttribute("aria-label", `Remove picture ${k + 1} of ${pictures.length}`);
      button.title = "Remove";
      button.append(picture.shown);
    });
    if (!pictures.length) element(list, "li", { className: "none", textContent: "no pictures yet" });
  }
}
