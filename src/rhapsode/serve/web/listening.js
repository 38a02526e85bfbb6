/** One utterance at a time, played as it comes, with a button that stops it. */

import { button, icon } from "./element.js";
import { Utterance } from "./utterance.js";

export class Listening {
  constructor(model) {
    this.model = model;
    this.utterance = null;
    this.halt = button([icon("stop"), "Stop"], () => this.stop(), "", { disabled: true });
  }

  /** Speak this request, and resolve when it has been heard. */
  async hear(fields, measured = () => {}) {
    const utterance = new Utterance(fields, this.model);
    utterance.changed = measured;
    return this.play(utterance, () => utterance.speak());
  }

  async again(utterance) {
    return this.play(utterance, () => utterance.again());
  }

  async play(utterance, work) {
    this.stop();
    this.utterance = utterance;
    this.halt.disabled = false;
    try {
      await work();
    } finally {
      if (this.utterance === utterance) this.halt.disabled = true;
    }
    return utterance;
  }

  stop() {
    this.utterance?.stop();
  }
}
