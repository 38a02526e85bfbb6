/** Type-to-talk: words are spoken while the next ones are being written. */

import { Conversation } from "../conversation.js";
import { Ear } from "../ear.js";
import { button, el, icon } from "../element.js";
import { Field } from "../field.js";
import { Figures, ms, seconds } from "../figures.js";
import { Settings } from "../settings.js";
import { Typing } from "../typing.js";
import { Waveform } from "../waveform.js";

const WORD_PAUSE_MS = 500; // then the last word is whole
const THOUGHT_PAUSE_MS = 1200; // then the utterance is
const INVITATION = "Begin to write. Each sentence is heard as soon as it stands.";

export class TalkView {
  constructor(models) {
    [this.model] = models;
    this.typing = new Typing();
    this.conversation = null;
    this.timers = [];
    this.text = new Field("Type or paste", el("textarea", { rows: 9, class: "script", placeholder: INVITATION, input: () => this.typed() }));
    this.settings = new Settings(models, { format: false });
    this.settings.changed = () => this.hangUp();
    this.waveform = new Waveform();
    this.ear = new Ear(this.model, this.listener());
    this.measured = { firstAudioMs: null, spokenS: 0, requests: 0, waits: 0 };
    this.figures = new Figures(
      {
        firstAudioMs: ["First audio", ms, "From the last words sent before it to the first sample that is played"],
        spokenS: ["Spoken", seconds, "In this stretch of speech"],
        requests: ["Requests", String, "An utterance is one, or one for each sentence"],
        waits: ["Waits", String, "Times the loudspeaker waited for more inside an utterance"],
      },
      "Measured in this browser",
    );
    this.status = el("p", { class: "status", role: "status" });
    this.error = el("p", { class: "error", role: "alert" });
    this.root = el(
      "div",
      { class: "columns", keydown: (event) => event.key === "Escape" && this.stop() },
      el(
        "section",
        { class: "card", "aria-label": "Type to talk" },
        this.text.root,
        this.waveform.canvas,
        el("div", { class: "actions" },
          button([icon("stop"), "Stop"], () => this.stop(), "primary", { title: "Esc" }),
          button("Clear", () => this.clear()),
          this.status,
        ),
        this.error,
        this.figures.root,
      ),
      el("section", { class: "card", "aria-label": "Settings" }, this.settings.root),
    );
  }

  // --- writing ---

  typed() {
    this.clearErrors();
    this.ear.open();
    this.say(false);
    this.forgetTimers();
    this.timers = [
      setTimeout(() => this.say(true), WORD_PAUSE_MS),
      setTimeout(() => this.finish(), THOUGHT_PAUSE_MS),
    ];
  }

  say(all) {
    if (!this.settings.check()) return;
    const words = this.typing.next(this.text.control.value, all);
    if (!words || (!words.trim() && !this.conversation?.isOpen)) return;
    this.conversation ??= this.call();
    this.conversation.say(words);
    this.sentMs = performance.now();
  }

  finish() {
    if (!this.conversation?.isOpen) return;
    this.conversation.done();
    this.sentMs = performance.now();
  }

  /** Silence at once; what was written but not spoken is not spoken later either. */
  stop() {
    this.forgetTimers();
    this.typing.next(this.text.control.value, true);
    this.ear.silence();
    this.conversation?.cancel();
    this.status.textContent = "";
  }

  clear() {
    this.stop();
    this.text.control.value = "";
    this.typing.reset();
    this.text.control.focus();
  }

  /** Settings hold for a whole conversation: others need another one. */
  hangUp() {
    this.conversation?.close();
    this.conversation = null;
  }

  leave() {
    this.stop();
    this.hangUp();
  }

  forgetTimers() {
    this.timers.splice(0).forEach(clearTimeout);
  }

  // --- hearing ---

  call() {
    const { sample_rate, channels } = this.model;
    const fields = { ...this.settings.values(), response_format: "pcm", sample_rate, channels };
    return new Conversation(fields, {
      started: () => {
        this.ear.begin();
        this.askedMs = this.sentMs;
        this.status.textContent = "Speaking …";
        this.measure({ requests: this.measured.requests + 1 });
      },
      audio: (bytes) => this.ear.hear(bytes),
      ended: () => {
        this.ear.rest();
        this.status.textContent = "";
      },
      failed: (error) => this.tell(error),
    });
  }

  listener() {
    return {
      fresh: () => this.waveform.clear(this.model.sample_rate, this.model.channels),
      samples: (samples) => this.waveform.push(samples),
      sounded: () => this.measure({ firstAudioMs: performance.now() - this.askedMs }),
      played: (spokenS) => {
        this.waveform.playedTo(spokenS);
        this.measure({ spokenS });
      },
      waited: (waits) => this.measure({ waits }),
      failed: (error) => this.tell(error),
    };
  }

  measure(figures) {
    Object.assign(this.measured, figures);
    this.figures.show(this.measured);
  }

  tell(error) {
    if (error.param === "input" || error.param === "text") this.text.show(error.message);
    else if (!this.settings.showError(error)) this.error.textContent = error.message;
  }

  clearErrors() {
    this.settings.clearErrors();
    this.error.textContent = "";
  }
}
