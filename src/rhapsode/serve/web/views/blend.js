/** A voice between two uploaded ones, where the family takes embeddings. */

import { embedding, keepEmbedding } from "../api.js";
import { between } from "../blend.js";
import { Consent } from "../consent.js";
import { button, el, icon } from "../element.js";
import { Field } from "../field.js";
import { knownVoices, onVoices, refreshVoices } from "../voices.js";

const QUESTION = "Who am I now?";

export class BlendCard {
  constructor(listening) {
    this.listening = listening;
    this.first = new Field("From", el("select", {}));
    this.second = new Field("To", el("select", {}));
    this.share = el("input", { type: "range", min: "0", max: "1", step: "0.05", value: "0.5", input: () => this.tellShare() });
    this.slider = new Field("Share of the second", this.share);
    this.name = new Field("Name", el("input", { type: "text", maxlength: "64", autocomplete: "off" }));
    this.consent = new Consent("Both speakers have agreed to this blend.");
    this.error = el("p", { class: "error", role: "alert" });
    this.status = el("p", { class: "status", role: "status" });
    this.hear = button([icon("play"), "Preview"], () => this.preview());
    this.save = button("Save as a voice", () => this.keep(), "primary");
    this.root = el(
      "section",
      { class: "card stack", "aria-label": "Blend two voices" },
      el("h2", {}, "Blend two voices"),
      el("div", { class: "pair" }, this.first.root, this.second.root),
      this.slider.root, this.name.root, this.consent.root,
      el("div", { class: "actions" }, this.hear, this.save, this.status),
      this.error,
    );
    onVoices(() => this.list());
    this.list();
    this.tellShare();
  }

  list() {
    const uploaded = knownVoices().filter(({ kind }) => kind === "uploaded");
    [this.first, this.second].forEach(({ control }, at) => {
      const chosen = control.value;
      control.replaceChildren(...uploaded.map(({ id, name }) => el("option", { value: id }, name)));
      const kept = uploaded.some(({ id }) => id === chosen) ? chosen : uploaded[Math.min(at, uploaded.length - 1)]?.id;
      control.value = kept ?? "";
    });
    this.hear.disabled = this.save.disabled = uploaded.length < 2;
    if (uploaded.length < 2) this.status.textContent = "Upload two voices first.";
    else this.status.textContent = "";
  }

  tellShare() {
    const percent = Math.round(Number(this.share.value) * 100);
    this.slider.label.textContent = `Share of the second: ${percent} %`;
  }

  async mixed() {
    const both = await Promise.all([embedding(this.first.control.value), embedding(this.second.control.value)]);
    return between(...both, Number(this.share.value));
  }

  async preview() {
    await this.try(async () => this.listening.hear({ input: QUESTION, speaker_embedding: await this.mixed() }));
  }

  async keep() {
    if (!this.consent.check()) return;
    await this.try(async () => {
      const kept = await keepEmbedding({ name: this.name.value, consent: this.consent.statement, embedding: await this.mixed() });
      await refreshVoices();
      this.status.textContent = `${kept.name} is kept.`;
    });
  }

  async try(work) {
    this.name.clear();
    this.error.textContent = "";
    try {
      await work();
    } catch (error) {
      if (error.param === "name") this.name.show(error.message);
      else this.error.textContent = error.message;
    }
  }
}
