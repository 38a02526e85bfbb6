/** Everything about an utterance but its text: fields for what the server and the served checkpoint take. */

import { el } from "./element.js";
import { Field, numberInput, select } from "./field.js";
import { OptionField } from "./options.js";
import { SpeedField } from "./speed.js";
import { VoiceCards } from "./voicecards.js";

export class Settings {
  /** Without `format` there is no choice of one; a `title` makes the settings compact; `kinds` are those of text to choose from. */
  constructor([model], { format = true, title = "", kinds = [] } = {}) {
    this.model = model;
    this.kinds = kinds;
    this.fields = {};
    const declared = { ...model.options, ...model.sampling_parameters };
    this.options = Object.entries(declared).map(([name, schema]) => new OptionField(name, schema));
    this.changed = () => {};
    const language = this.language();
    const few = [language, format ? this.format() : null].filter(Boolean);
    this.root = el(
      "fieldset",
      { class: title ? "settings compact" : "settings", input: () => this.changed() },
      el("legend", { class: title ? "" : "unseen" }, title || "How to say it"),
      this.keep("voice", new VoiceCards(model)),
      this.keep("speed", new SpeedField()),
      title || !few.length ? null : el("div", { class: few.length > 1 ? "pair" : "" }, few),
      title ? null : this.instructions(),
      el("details", { class: "more" }, el("summary", {}, "Advanced"), title ? [language, this.instructions()] : null, this.advanced()),
    );
  }

  /** What the person set, and nothing else. */
  values() {
    const { voice, language, speed, response_format: format, instructions, seed, input_type: inputType } = this.fields;
    const values = {
      voice: voice.value || undefined,
      language: language?.value || undefined,
      speed: speed.number === 1 ? undefined : speed.number,
      response_format: format?.value,
      instructions: instructions?.value || undefined,
      seed: seed.number,
      input_type: inputType?.value === "text" ? undefined : inputType?.value,
    };
    for (const option of this.options) values[option.name] = option.value;
    return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  }

  /** Has the text read as this kind from now on. */
  readAs(kind) {
    this.fields.input_type.control.value = kind;
  }

  get speed() {
    return this.fields.speed.number;
  }

  /** Whether every field can be read; what cannot is marked. */
  check() {
    const nonsense = Object.values(this.fields).filter((field) => field.isNonsense);
    nonsense.forEach((field) => field.show("This must be a number."));
    if (nonsense.length) reveal(nonsense[0]);
    return !nonsense.length;
  }

  /** Puts an error next to the field it concerns, if that is one of these. */
  showError({ param, message }) {
    const field = this.fields[{ speaker: "voice", ref_audio: "voice", speaker_embedding: "voice" }[param] ?? param];
    if (!field) return false;
    field.show(message);
    reveal(field);
    return true;
  }

  clearErrors() {
    Object.values(this.fields).forEach((field) => field.clear());
  }

  // --- the fields ---

  keep(name, field) {
    this.fields[name] = field;
    return field.root;
  }

  add(name, label, control, settings) {
    return this.keep(name, new Field(label, control, settings));
  }

  language() {
    const { languages } = this.model;
    if (languages.length < 2) return null; // one is no choice
    return this.add("language", "Language", select([["", "auto"], ...languages.map((code) => [code, nameOf(code)])]));
  }

  instructions() {
    if (!this.model.capabilities.includes("instructions")) return null;
    return this.add("instructions", "Instructions", el("textarea", { rows: 2, placeholder: "calm, a little amused" }));
  }

  /** What the text is, and what is kept of it beside the speech. */
  writing() {
    const { word_timestamps: languages = [] } = this.model.text;
    const subtitles = this.add("subtitles", "Subtitles of takes", select([["srt", "SubRip (.srt)"], ["vtt", "WebVTT (.vtt)"]], "srt"));
    subtitles.hidden = !languages.length;
    return [this.add("input_type", "The text is", select(this.kinds, "text")), subtitles];
  }

  format() {
    return this.add("response_format", "Format", select(this.model.formats.map((name) => [name, name]), "mp3"));
  }

  advanced() {
    const seed = numberInput({ step: "1", placeholder: "random", inputmode: "numeric" });
    return [
      ...(this.kinds.length ? this.writing() : []),
      this.add("seed", "Seed", seed, { hint: "The same seed gives the same speech." }),
      ...this.options.map((option) => this.keep(option.name, option.field)),
    ];
  }
}

/** Brings a field into view, also one that is folded away. */
function reveal(field) {
  field.root.closest("details")?.setAttribute("open", "");
  (field.control.matches("[role=radiogroup]") ? field.control.querySelector("input:checked") : field.control).focus();
}

/** Returns the name of a language; a family may also have words of its own for one. */
function nameOf(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}
