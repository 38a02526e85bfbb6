/** The word that a voice's owner agrees: without it nothing is kept. */

import { el } from "./element.js";
import { Field } from "./field.js";

export class Consent {
  constructor(words) {
    this.words = words;
    this.box = el("input", { type: "checkbox" });
    this.field = new Field("Consent", this.box);
    this.field.label.textContent = words;
    this.field.label.className = "check";
    this.field.label.prepend(this.box);
    this.root = this.field.root;
  }

  /** What is kept with the voice; marked where it is missing. */
  check() {
    if (this.box.checked) return true;
    this.field.show("Nothing is kept without it.");
    return false;
  }

  get statement() {
    return `${this.words} (${new Date().toISOString().slice(0, 10)})`;
  }
}
