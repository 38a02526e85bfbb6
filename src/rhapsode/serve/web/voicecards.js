/** The choice of a voice: a card for each, with a sample to hear. */

import { button, el, icon, newId } from "./element.js";
import { Field } from "./field.js";
import { knownVoices, onVoices } from "./voices.js";
import { hearSample, stopSample } from "./voicesamples.js";

const ABOUT = { preset: "", uploaded: "uploaded" };

/** A field whose control is a group of radio buttons. */
export class VoiceCards extends Field {
  constructor(model) {
    const group = el("div", { class: "voices", role: "radiogroup", "aria-label": "Voice" });
    super("Voice", group);
    this.label.removeAttribute("for");
    this.model = model;
    this.group = newId("voice");
    this.playing = null;
    onVoices(() => this.list());
    this.list();
  }

  get value() {
    return this.control.querySelector("input:checked")?.value ?? "";
  }

  /** Draws the cards; the chosen voice stays chosen while it is there. Of several presets the first is the default. */
  list() {
    const voices = knownVoices().filter(({ kind }) => kind in ABOUT);
    const hasPreset = voices.some(({ kind }) => kind === "preset");
    if ((this.model.default_voice && !hasPreset) || !voices.length) voices.unshift({ id: "", name: "Default", kind: "preset" });
    const chosen = voices.some(({ id }) => id === this.value) ? this.value : voices[0].id;
    this.control.replaceChildren(...voices.map((voice) => this.card(voice, voice.id === chosen)));
  }

  card({ id, name, kind, gender, accent, to_download: toDownload }, isChosen) {
    const radio = el("input", { type: "radio", name: this.group, value: id, checked: isChosen, class: "unseen", change: () => this.reach() });
    const hear = button(icon("play"), () => this.hear(id, name, hear), "quiet sample", {
      "aria-label": `Hear ${name}`, title: `Hear ${name}`, tabindex: isChosen ? "0" : "-1",
    });
    const words = [gender, accent, toDownload ? "downloads first" : ABOUT[kind]].filter(Boolean).join(", ");
    const about = words && el("small", { class: "hint" }, words);
    return el("div", { class: "voice" }, el("label", {}, radio, el("span", { class: "name" }, name, about || null)), hear);
  }

  /** Only the chosen card's sample is a stop of the Tab key: arrow keys lead from card to card. */
  reach() {
    for (const card of this.control.children) card.querySelector("button").tabIndex = card.querySelector("input").checked ? 0 : -1;
  }

  async hear(id, name, hear) {
    this.clear();
    if (this.playing === hear) return stopSample();
    this.playing = hear;
    try {
      await hearSample(this.model, id, ({ isOver }) => draw(hear, isOver ? "play" : "stop", `${isOver ? "Hear" : "Stop"} ${name}`));
    } catch (error) {
      this.show(error.message);
    } finally {
      if (this.playing === hear) this.playing = null;
    }
    return undefined;
  }
}

function draw(control, picture, label) {
  if (control.ariaLabel === label) return;
  control.replaceChildren(icon(picture));
  control.ariaLabel = control.title = label;
}
