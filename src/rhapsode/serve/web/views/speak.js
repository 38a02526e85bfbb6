/** Speak: a text, a voice, and sound that starts with the first frame. */

import { sentence } from "../api.js";
import { CodePanel } from "../code.js";
import { button, el, icon } from "../element.js";
import { Field } from "../field.js";
import { speechFigures } from "../figures.js";
import { download } from "../recording.js";
import { Settings } from "../settings.js";
import { Utterance } from "../utterance.js";
import { Waveform } from "../waveform.js";

const EXAMPLE =
  "A rhapsode was the performer who stitched songs together and spoke them aloud. This one starts with the first frame, " +
  "and goes on while the rest is still being made.";
const PREVIEW = "Hello. This is how I sound.";

export class SpeakView {
  constructor(models) {
    this.utterance = null;
    this.text = new Field("Text", el("textarea", { rows: 7, class: "script", value: EXAMPLE, "aria-keyshortcuts": "Control+Enter" }));
    this.settings = new Settings(models, { preview: () => this.speak(PREVIEW) });
    this.waveform = new Waveform();
    this.figures = speechFigures();
    this.status = el("p", { class: "status", role: "status" });
    this.error = el("p", { class: "error", role: "alert" });
    this.play = button([icon("play"), "Speak"], () => this.speak(), "primary", { title: "Ctrl+Enter" });
    this.halt = button([icon("stop"), "Stop"], () => this.stop(), "", { disabled: true, title: "Esc" });
    this.replay = button([icon("again"), "Replay"], () => this.again(), "", { disabled: true });
    this.save = button([icon("save"), "Download"], () => this.download(), "", { disabled: true });
    this.code = new CodePanel(() => this.request());
    const update = () => this.code.update();
    this.text.control.addEventListener("input", update);
    this.settings.changed = update;
    this.root = el(
      "div",
      { class: "columns", keydown: (event) => this.press(event) },
      el(
        "div",
        { class: "stack" },
        el(
          "section",
          { class: "card", "aria-label": "Speech" },
          this.text.root,
          this.waveform.canvas,
          el("div", { class: "actions" }, this.play, this.halt, this.replay, this.save, this.status),
          this.error,
          this.figures.root,
        ),
        el("details", { class: "card" }, el("summary", {}, "The same from code"), this.code.root),
      ),
      el("section", { class: "card", "aria-label": "Settings" }, this.settings.root),
    );
  }

  /** The request for what is on the page now. */
  request() {
    return { input: this.text.control.value, ...this.settings.values() };
  }

  async speak(words = null) {
    this.clearErrors();
    if (!this.settings.check()) return;
    this.stop();
    const fields = words === null ? this.request() : { ...this.request(), input: words };
    const utterance = new Utterance(fields, this.settings.model);
    this.utterance = utterance;
    utterance.changed = (measured) => this.figures.show(measured);
    this.figures.show({});
    this.waveform.clear(this.settings.model.sample_rate, this.settings.model.channels);
    await this.during(utterance, "Speaking", () =>
      utterance.speak({
        onSamples: (samples) => this.utterance === utterance && this.waveform.push(samples),
        onPlayed: (playedS) => this.utterance === utterance && this.waveform.playedTo(playedS),
      }),
    );
  }

  async again() {
    const { utterance } = this;
    this.clearErrors();
    await this.during(utterance, "Playing again", () =>
      utterance.again({ onPlayed: (playedS) => this.waveform.playedTo(playedS) }),
    );
  }

  stop() {
    this.utterance?.stop();
  }

  async download() {
    const { response_format: format } = this.settings.values();
    this.clearErrors();
    this.save.disabled = true;
    try {
      download(await this.utterance.file(format), `speech.${format}`);
    } catch (error) {
      this.tell(error);
    } finally {
      this.save.disabled = false;
    }
  }

  /** Buttons and status while it is heard. */
  async during(utterance, what, work) {
    this.status.textContent = `${what} …`;
    this.halt.disabled = false;
    this.replay.disabled = this.save.disabled = true;
    try {
      await work();
    } catch (error) {
      if (this.utterance === utterance) this.tell(error);
    }
    if (this.utterance !== utterance) return; // another one has begun
    this.halt.disabled = true;
    this.replay.disabled = !utterance.recording?.whole;
    this.save.disabled = !utterance.recording;
    const { recording } = utterance;
    this.status.textContent = recording ? `${recording.durationS.toFixed(1)} s, seed ${utterance.fields.seed}` : "";
  }

  tell(error) {
    const near = { input: this.text, text: this.text, messages: this.text }[error.param];
    if (near) {
      near.show(error.message);
      near.control.focus();
    } else if (!this.settings.showError(error)) {
      this.error.textContent = sentence(error.message);
    }
  }

  clearErrors() {
    this.text.clear();
    this.settings.clearErrors();
    this.error.textContent = "";
  }

  press(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.speak();
    } else if (event.key === "Escape") {
      this.stop();
    }
  }

  leave() {
    this.stop();
  }
}
