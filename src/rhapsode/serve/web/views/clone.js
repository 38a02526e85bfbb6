/** Clone: makes a voice from a sample, or one between two voices. */

import { uploadVoice } from "../api.js";
import { Consent } from "../consent.js";
import { button, el, icon } from "../element.js";
import { Field } from "../field.js";
import { Listening } from "../listening.js";
import { Sample } from "../sample.js";
import { refreshVoices } from "../voices.js";
import { BlendCard } from "./blend.js";
import { VoicesCard } from "./shelf.js";

const PREVIEW = "This is the voice you have just given me.";

function cannot({ id, reference_needs: needs }) {
  if (!needs.length) return `${id} speaks with its own voices and clones none. Serve a checkpoint that clones to make a voice here.`;
  return `${id} lacks what encodes a recording, so no voice can be made here. A request may give ref_audio together with ${needs.join(" and ")}.`;
}

export class CloneView {
  constructor(models) {
    [this.model] = models;
    const { max_reference_s: mostS, max_upload_bytes: mostBytes } = this.model.deployment.server;
    const can = (what) => this.model.capabilities.includes(what);
    this.sample = new Sample({ mostS, mostBytes });
    this.sample.changed = () => this.update();
    this.text = new Field("What is said in it (optional)", el("textarea", { rows: 2 }), { hint: "With it, some models follow the sample more closely." });
    this.name = new Field("Name", el("input", { type: "text", maxlength: "64", autocomplete: "off" }));
    this.consent = new Consent("The speaker has agreed that this voice is cloned.");
    this.say = new Field("Say in this voice", el("input", { type: "text", value: PREVIEW }));
    this.error = el("p", { class: "error", role: "alert" });
    this.status = el("p", { class: "status", role: "status" });
    this.listening = new Listening(this.model);
    this.preview = button([icon("play"), "Preview"], () => this.hear());
    this.save = button("Save as a voice", () => this.keep(), "primary");
    this.shelf = new VoicesCard(this.model);
    const form = el(
      "section",
      { class: "card stack", "aria-label": "A new voice" },
      el("h2", {}, "A new voice"),
      can("clone")
        ? [this.sample.root, this.text.root, this.say.root, this.name.root, this.consent.root,
          el("div", { class: "actions" }, this.preview, this.save, this.listening.halt, this.listening.status, this.status), this.error]
        : el("p", { class: "hint" }, cannot(this.model)),
    );
    const blend = can("embedding") && this.model.embedding_size ? new BlendCard(this.listening).root : null;
    this.root = el("div", { class: "halves" }, form, el("div", { class: "stack" }, this.shelf.root, blend));
    this.update();
  }

  update() {
    this.preview.disabled = this.save.disabled = !this.sample.file;
  }

  /** What is said in the sample, if anything. Models read its spaces, too. */
  get transcript() {
    return this.text.value && this.text.control.value;
  }

  async hear() {
    this.clearErrors();
    try {
      const reference = await this.sample.dataUrl();
      const fields = { input: this.say.value, ref_audio: reference };
      if (this.transcript) fields.ref_text = this.transcript;
      await this.listening.hear(fields);
    } catch (error) {
      this.tell(error);
    }
  }

  async keep() {
    this.clearErrors();
    if (!this.consent.check()) return;
    try {
      const voice = { name: this.name.value, consent: this.consent.statement, text: this.transcript, audio: await this.sample.dataUrl() };
      const kept = await uploadVoice(voice);
      await refreshVoices();
      this.status.textContent = `${kept.name} is kept.`;
      this.sample.clear();
      this.name.control.value = this.text.control.value = "";
      this.consent.box.checked = false;
    } catch (error) {
      this.tell(error);
    }
  }

  tell(error) {
    const fields = {
      name: this.name, text: this.text, ref_text: this.text, consent: this.consent.field, input: this.say,
      audio_sample: this.sample.field, ref_audio: this.sample.field,
    };
    if (fields[error.param]) fields[error.param].show(error.message);
    else this.error.textContent = error.message;
  }

  clearErrors() {
    for (const field of [this.name, this.text, this.say, this.consent.field, this.sample.field]) field.clear();
    this.error.textContent = this.status.textContent = "";
  }

  leave() {
    this.listening.stop();
    this.sample.finish();
  }
}
