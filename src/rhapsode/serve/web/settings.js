/** Everything about an utterance but its text: fields for what the server and the served family take. */

import { button, el, icon } from "./element.js";
import { Field, numberInput, select } from "./field.js";
import { OptionField } from "./options.js";
import { knownVoices, onVoices } from "./voices.js";

const SAMPLING = {
  temperature: "Temperature",
  top_p: "Top p",
  top_k: "Top k",
  repetition_penalty: "Repetition penalty",
};

export class Settings {
  /** `preview` is called to hear a voice; without `format` there is no choice of one. */
  constructor(models, { preview = null, format = true, title = "" } = {}) {
    [this.model] = models;
    this.fields = {};
    this.options = Object.entries(this.model.options).map(([name, schema]) => new OptionField(name, schema));
    this.changed = () => {};
    this.root = el(
      "fieldset",
      { class: title ? "settings wide" : "settings", input: () => this.changed() },
      el("legend", { class: title ? "" : "unseen" }, title || "How to say it"),
      this.voice(preview),
      this.add("model", "Model", select(models.map(({ id }) => [id, id]))),
      this.language(),
      el("div", { class: "pair" }, this.speed(), format ? this.format() : this.seed()),
      this.instructions(),
      format ? this.seed() : null,
      this.more(),
    );
    onVoices(() => this.listVoices());
  }

  /** What the person set, and nothing else. */
  values() {
    const { voice, model, language, speed, response_format: format, instructions, seed } = this.fields;
    const [main] = model.control.options;
    const values = {
      voice: voice.value || undefined,
      model: model.value === main.value ? undefined : model.value,
      language: language?.value || undefined,
      speed: speed.number === 1 ? undefined : speed.number,
      response_format: format?.value,
      instructions: instructions?.value || undefined,
      seed: seed.number,
    };
    for (const name of this.model.sampling) values[name] = this.fields[name].number;
    for (const option of this.options) values[option.name] = option.value;
    return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  }

  /** Whether every field can be read; what cannot is marked. */
  check() {
    const nonsense = Object.values(this.fields).filter((field) => field.isNonsense);
    nonsense.forEach((field) => field.show("This must be a number."));
    nonsense[0]?.control.focus();
    return !nonsense.length;
  }

  /** Put an error next to the field it concerns, if that is one of these. */
  showError({ param, message }) {
    const field = this.fields[{ speaker: "voice", ref_audio: "voice", speaker_embedding: "voice" }[param] ?? param];
    if (!field) return false;
    field.show(message);
    field.root.closest("details")?.setAttribute("open", "");
    field.control.focus();
    return true;
  }

  clearErrors() {
    Object.values(this.fields).forEach((field) => field.clear());
  }

  // --- the fields ---

  add(name, label, control, settings) {
    this.fields[name] = new Field(label, control, settings);
    return this.fields[name].root;
  }

  voice(preview) {
    const control = el("select", {});
    const hear = preview && button(icon("play"), () => preview(this), "quiet", { "aria-label": "Hear this voice", title: "Hear this voice" });
    const root = this.add("voice", "Voice", control, { beside: hear ? [hear] : [] });
    this.listVoices();
    return root;
  }

  listVoices() {
    const { control } = this.fields.voice;
    const chosen = control.value;
    const group = (label, kind) => {
      const members = knownVoices().filter((voice) => voice.kind === kind);
      return members.length ? el("optgroup", { label }, members.map(({ id, name }) => el("option", { value: id }, name))) : null;
    };
    const usual = el("option", { value: "" }, "default");
    control.replaceChildren(...[usual, group("Presets", "preset"), group("Uploaded", "uploaded")].filter(Boolean));
    control.value = [...control.options].some(({ value }) => value === chosen) ? chosen : "";
  }

  language() {
    const { languages } = this.model;
    if (!languages.length) return null;
    return this.add("language", "Language", select([["", "auto"], ...languages.map((code) => [code, nameOf(code)])]));
  }

  instructions() {
    if (!this.model.capabilities.includes("instructions")) return null;
    return this.add("instructions", "Instructions", el("textarea", { rows: 2, placeholder: "calm, a little amused" }));
  }

  speed() {
    return this.add("speed", "Speed", numberInput({ min: "0.25", max: "4", step: "0.05", value: "1" }));
  }

  seed() {
    return this.add("seed", "Seed", numberInput({ step: "1", placeholder: "random", inputmode: "numeric" }));
  }

  format() {
    const formats = this.model.formats.map((name) => [name, name]);
    return this.add("response_format", "Format", select(formats, "mp3"));
  }

  more() {
    const sampling = this.model.sampling.map((name) =>
      this.add(name, SAMPLING[name], numberInput({ placeholder: "default", ...(name === "top_k" && { step: "1" }) })),
    );
    for (const option of this.options) this.fields[option.name] = option.field;
    return [
      ...this.options.map((option) => option.field.root),
      sampling.length ? el("details", { class: "more" }, el("summary", {}, "Sampling"), el("div", { class: "pair" }, sampling)) : null,
    ];
  }
}

/** What a language is called; a family may also have words of its own for one. */
function nameOf(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}
