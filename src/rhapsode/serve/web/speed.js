/** The speed of speech as a slider. */

import { el } from "./element.js";
import { Field } from "./field.js";

export class SpeedField extends Field {
  constructor() {
    const slider = el("input", { type: "range", min: "0.5", max: "2", step: "0.05", value: "1" });
    super("Speed", slider);
    this.shown = el("output", { for: slider.id, class: "reading" });
    this.label.after(this.shown);
    this.root.classList.add("sliding");
    slider.addEventListener("input", () => this.tell());
    slider.addEventListener("dblclick", () => this.reset());
    this.tell();
  }

  reset() {
    this.control.value = "1";
    this.control.dispatchEvent(new Event("input", { bubbles: true }));
  }

  tell() {
    this.shown.textContent = `${this.number}×`;
    this.control.setAttribute("aria-valuetext", `${this.number} times`);
  }
}
