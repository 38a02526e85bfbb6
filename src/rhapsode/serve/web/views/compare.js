/** Compare: the same text with two settings, side by side or blind. */

import { button, el, icon } from "../element.js";
import { Field } from "../field.js";
import { speechFigures } from "../figures.js";
import { Listening } from "../listening.js";
import { Settings } from "../settings.js";
import { Utterance } from "../utterance.js";

const EXAMPLE = "The quick brown fox jumps over the lazy dog.";

export class CompareView {
  constructor(models) {
    [this.model] = models;
    this.listening = new Listening(this.model);
    this.text = new Field("Text", el("textarea", { rows: 2, class: "script", value: EXAMPLE }));
    this.sides = ["A", "B"].map((name) => this.side(name, models));
    this.error = el("p", { class: "error", role: "alert" });
    this.status = el("p", { class: "status", role: "status" });
    this.blind = el("input", { type: "checkbox", change: () => this.update() });
    this.prepare = button("Make both, shuffled", () => this.shuffle(), "primary");
    this.trial = el("div", { class: "actions", hidden: true, role: "group", "aria-label": "Blind trial" });
    this.score = { A: 0, B: 0, same: 0 };
    this.root = this.layout();
    this.update();
  }

  side(name, models) {
    const side = { name, settings: new Settings(models, { format: false, title: name }), figures: speechFigures(), utterance: null };
    side.figures.root.hidden = true;
    side.play = button([icon("play"), `Play ${name}`], () => this.play(side), "primary");
    side.card = el("section", { class: "card", "aria-label": `Setting ${name}` }, side.settings.root, side.figures.root);
    return side;
  }

  layout() {
    return el(
      "div",
      { class: "stack compare", keydown: (event) => event.key === "Escape" && this.listening.stop() },
      el("section", { class: "card", "aria-label": "Text to compare" }, this.text.root),
      el("div", { class: "halves" }, this.sides.map(({ card }) => card)),
      el("section", { class: "card dock", "aria-label": "Trial" },
        el("div", { class: "actions" }, this.sides.map(({ play }) => play), this.prepare, this.listening.halt, this.listening.status,
          el("label", { class: "check" }, this.blind, "Blind")),
        this.trial, this.status, this.error),
    );
  }

  update() {
    this.prepare.hidden = !this.blind.checked;
    this.trial.hidden = true;
    for (const { play, figures } of this.sides) {
      play.hidden = this.blind.checked;
      figures.root.hidden ||= this.blind.checked;
    }
    this.status.textContent = this.blind.checked ? "Both are made first; which is which is shown after your choice." : "";
  }

  fields({ settings }) {
    return { input: this.text.control.value, ...settings.values() };
  }

  async play(side) {
    this.clearErrors();
    if (!side.settings.check()) return;
    side.figures.root.hidden = false;
    try {
      await this.listening.hear(this.fields(side), (measured) => side.figures.show(measured));
    } catch (error) {
      this.tell(error, side);
    }
  }

  // --- blind ---

  /** Makes both before either is heard, so that the waiting time gives nothing away. */
  async shuffle() {
    this.clearErrors();
    if (!this.sides.every(({ settings }) => settings.check())) return;
    this.prepare.disabled = true;
    this.status.textContent = "Making both …";
    try {
      for (const side of this.sides) await this.make(side);
      this.offer(Math.random() < 0.5 ? [...this.sides] : [...this.sides].reverse());
    } catch {
      this.status.textContent = "";
    } finally {
      this.prepare.disabled = false;
    }
  }

  async make(side) {
    side.utterance = new Utterance(this.fields(side), this.model);
    try {
      await side.utterance.make();
    } catch (error) {
      this.tell(error, side);
      throw error;
    }
  }

  offer(shuffled) {
    const hear = shuffled.map((side, i) => button([icon("play"), `Play ${i + 1}`], () => this.listening.play(side.utterance)));
    const vote = (label, side) => button(label, () => this.reveal(shuffled, side), "quiet");
    this.trial.replaceChildren(...hear, vote("1 is better", shuffled[0]), vote("2 is better", shuffled[1]), vote("No difference", null));
    this.trial.hidden = false;
    this.status.textContent = "Listen as often as you like, then choose.";
  }

  reveal([first], chosen) {
    this.score[chosen?.name ?? "same"] += 1;
    this.trial.hidden = true;
    const { A, B, same } = this.score;
    this.status.textContent = `1 was ${first.name}. So far: A ${A}, B ${B}, no difference ${same}.`;
  }

  tell(error, side) {
    if (error.param === "input") this.text.show(error.message);
    else if (!side.settings.showError(error)) this.error.textContent = `${side.name}: ${error.message}`;
  }

  clearErrors() {
    this.text.clear();
    this.sides.forEach(({ settings }) => settings.clearErrors());
    this.error.textContent = "";
  }

  leave() {
    this.listening.stop();
  }
}
