/** Plays one utterance at a time, with a button that stops it and a word when it has ended. */

import { button, el, icon } from "./element.js";
import { Hearing } from "./hearing.js";
import { Utterance } from "./utterance.js";

export class Listening {
  constructor(model) {
    this.model = model;
    this.hearing = null;
    this.halt = button([icon("stop"), "Stop"], () => this.stop(), "", { disabled: true });
    this.status = el("span", { class: "status ended", role: "status" });
  }

  /** Speaks this request and resolves when it has been heard. */
  async hear(fields, measured = () => {}) {
    const utterance = new Utterance(fields, this.model);
    utterance.changed = measured;
    return this.play(utterance);
  }

  async play(utterance) {
    this.stop();
    const hearing = new Hearing(utterance);
    this.hearing = hearing;
    this.halt.disabled = false;
    this.status.textContent = "";
    try {
      await hearing.run();
      if (this.hearing === hearing) this.status.textContent = hearing.isFinished ? "Finished" : "Stopped";
    } finally {
      if (this.hearing === hearing) this.halt.disabled = true;
    }
    return utterance;
  }

  stop() {
    this.hearing?.stop();
  }
}
