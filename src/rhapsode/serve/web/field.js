/** A labelled control with a hint and an error message. */

import { el, newId } from "./element.js";

export class Field {
  constructor(label, control, { hint = "" } = {}) {
    this.control = control;
    control.id ||= newId("field");
    this.told = el("p", { class: "error", role: "alert", id: newId("error") });
    this.hint = el("small", { class: "hint", id: newId("hint") }, hint);
    control.setAttribute("aria-describedby", `${this.hint.id} ${this.told.id}`);
    this.label = el("label", { for: control.id }, label);
    this.root = el("div", { class: "field" }, this.label, control, hint.length ? this.hint : null, this.told);
    control.addEventListener("input", () => this.clear());
  }

  get value() {
    return this.control.value.trim();
  }

  /** The number, or undefined where nothing is given. */
  get number() {
    return this.value === "" ? undefined : Number(this.value);
  }

  /** Whether it holds something that is not a number; a browser returns an empty value for it. */
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
