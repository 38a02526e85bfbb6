/** Type to talk: words are spoken while the next ones are being written. */

import { Conversation } from "../conversation.js";
import { Ear } from "../ear.js";
import { announce, button, el, icon } from "../element.js";
import { Field } from "../field.js";
import { Figures, ms, seconds } from "../figures.js";
import { Highlight } from "../highlight.js";
import { Settings } from "../settings.js";
import { Typing } from "../typing.js";
import { Waveform } from "../waveform.js";
import { Words, announcesWords } from "../words.js";

const WORD_PAUSE_MS = 500; // then the last word is whole
const THOUGHT_PAUSE_MS = 1200; // then the utterance is
const LIT_MS = 1500; // then the last word has been spoken
const INVITATION = "Begin to write. Words are heard while you write the next ones.";

export class TalkView {
  constructor(models) {
    [this.model] = models;
    this.typing = new Typing();
    this.conversation = null;
    this.timers = [];
    this.text = new Field("Type or paste", el("textarea", { rows: 9, class: "script", placeholder: INVITATION, input: () => this.typed() }));
    this.highlight = new Highlight(this.text.control);
    this.text.label.after(this.highlight.root);
    this.words = new Words();
    this.piece = { from: 0, to: 0 }; // of the text, being spoken
    this.isTimed = true; // as far as the server announces it
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
      { class: "speak", keydown: (event) => event.key === "Escape" && this.stop() },
      el("section", { class: "card writing", "aria-label": "Type to talk" }, this.text.root),
      el("section", { class: "card choosing", "aria-label": "Settings" }, this.settings.root),
      el("section", { class: "card dock", "aria-label": "Player" },
        this.waveform.canvas,
        el("div", { class: "actions" },
          button([icon("stop"), "Stop"], () => this.stop(), "primary", { title: "Esc" }),
          button("Clear", () => this.clear()),
          this.status),
        this.error),
      el("div", { class: "stack after" },
        el("details", { class: "card" }, el("summary", {}, "Measured in this browser"), this.figures.root)),
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
    const start = this.typing.sent.length;
    const words = this.typing.next(this.text.control.value, all);
    if (!words || (!words.trim() && !this.conversation?.isOpen)) return;
    this.conversation ??= this.call();
    this.conversation.say(words, start);
    this.sentMs = performance.now();
  }

  finish() {
    if (!this.conversation?.isOpen) return;
    this.conversation.done();
    this.sentMs = performance.now();
  }

  /** Stops at once; what was written but not spoken is not spoken later either. */
  stop() {
    this.forgetTimers();
    this.typing.next(this.text.control.value, true);
    this.ear.silence();
    this.highlight.clear();
    this.conversation?.cancel();
    announce(this.status, this.status.textContent && "Stopped");
  }

  clear() {
    this.stop();
    this.text.control.value = "";
    this.typing.reset();
    this.piece = { from: 0, to: 0 };
    this.text.control.focus();
  }

  /** Closes the conversation: settings hold for a whole one. */
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
    const values = this.settings.values();
    const timed = this.isTimed && announcesWords(this.model, values.language) ? { word_timestamps: true } : {};
    const fields = { ...values, response_format: "pcm", sample_rate, channels, ...timed };
    return new Conversation(fields, {
      started: ({ sentence_text: text }, start) => {
        this.ear.begin();
        this.find(text, start);
        this.askedMs = this.sentMs;
        announce(this.status, "Speaking …");
        this.measure({ requests: this.measured.requests + 1 });
      },
      audio: (bytes) => this.ear.hear(bytes),
      words: (words) => this.time(words),
      ended: () => this.ear.rest(),
      failed: (error) => this.tell(error),
    });
  }

  listener() {
    return {
      fresh: () => {
        this.waveform.clear(this.model.sample_rate, this.model.channels);
        this.words = new Words();
        this.measure({ spokenS: 0 });
      },
      samples: (samples) => this.waveform.push(samples),
      sounded: () => this.measure({ firstAudioMs: performance.now() - this.askedMs }),
      played: (spokenS) => {
        this.waveform.playedTo(spokenS);
        this.light(this.words.at(spokenS));
        this.measure({ spokenS });
      },
      waited: (waits) => this.measure({ waits }),
      rested: () => this.conversation?.isOpen || announce(this.status, "Finished"),
      failed: (error) => this.tell(error),
    };
  }

  /** Finds the piece that is spoken now in what is written; `start` is where its utterance begins. */
  find(text, start) {
    const earliest = Math.max(start, this.piece.to);
    const found = this.text.control.value.indexOf(text, earliest);
    const from = found < 0 ? earliest : found;
    this.piece = { from, to: from + text.length };
  }

  /** Adds words of the piece that is spoken now, with their times in what is played. */
  time(words) {
    const { beganS } = this.ear;
    const { from: at } = this.piece;
    this.words.push(words.map((word) => ({ ...word, start: beganS + word.start, from: at + word.from, to: at + word.to })));
    this.light(this.words.at(this.measured.spokenS));
  }

  /** Lights up a word while it is spoken, if it is still written there. */
  light(word) {
    clearTimeout(this.dimming);
    this.dimming = setTimeout(() => this.highlight.clear(), LIT_MS);
    if (word && this.text.control.value.slice(word.from, word.to) === word.word) this.highlight.show(word.from, word.to);
    else this.highlight.clear();
  }

  measure(figures) {
    Object.assign(this.measured, figures);
    this.figures.show(this.measured);
  }

  /** Speaks the utterance that was refused once more, without the times of its words. */
  sayUntimed() {
    this.isTimed = false;
    this.typing.sent = this.text.control.value.slice(0, this.conversation?.starts.at(-1) ?? 0);
    this.hangUp();
    this.say(true);
  }

  tell(error) {
    if (error.param === "word_timestamps" && this.isTimed) this.sayUntimed();
    else if (error.param === "input" || error.param === "text") this.text.show(error.message);
    else if (!this.settings.showError(error)) this.error.textContent = error.message;
  }

  clearErrors() {
    this.settings.clearErrors();
    this.error.textContent = "";
  }
}
