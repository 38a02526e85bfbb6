/** A labelled control, and the words that say what is wrong with it. */

import { el, newId } from "./element.js";

export class Field {
  /** `beside` stands next to the control: a button, say. */
  constructor(label, control, { hint = "", beside = [], className = "" } = {}) {
    this.control = control;
    control.id ||= newId("field");
    this.told = el("p", { class: "error", role: "alert", id: newId("error") });
    this.hint = el("small", { class: "hint", id: newId("hint") }, hint);
    control.setAttribute("aria-describedby", `${this.hint.id} ${this.told.id}`);
    this.label = el("label", { for: control.id }, label);
    const line = beside.length ? el("div", { class: "beside" }, control, beside) : control;
    this.root = el("div", { class: `field ${className}`.trim() }, this.label, line, hint ? this.hint : null, this.told);
    control.addEventListener("input", () => this.clear());
  }

  get value() {
    return this.control.value.trim();
  }

  /** The number, or undefined where nothing is given. */
  get number() {
    return this.value === "" ? undefined : Number(this.value);
  }

  /** Whether it holds something that is no number at all, which a browser hands out as nothing. */
  get isNonsense() {
    return Boolean(this.control.validity?.badInput);
  }

  show(message) {
    this.told.textContent = message;
    this.control.setAttribute("aria-invalid", "true");
  }

  clear() {
    this.told.textContent = "";
    this.control.removeAttribute("aria-invalid");
  }
}

export function select(choices, selected = "") {
  const options = choices.map(([value, label]) => el("option", { value, selected: value === selected }, label));
  return el("select", {}, options);
}

export function numberInput(attributes) {
  return el("input", { type: "number", step: "any", inputmode: "decimal", ...attributes });
}
