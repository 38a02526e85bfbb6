/** Speak: a text and a voice, heard while the rest is still being made. */

import { sentence } from "../api.js";
import { CodePanel } from "../code.js";
import { segmentsOf } from "../dialogue.js";
import { announce, button, el, icon } from "../element.js";
import { EXAMPLES } from "../examples.js";
import { clock, speechFigures } from "../figures.js";
import { Hearing } from "../hearing.js";
import { Script } from "../script.js";
import { Settings } from "../settings.js";
import { shortcutLine, shortcuts } from "../shortcuts.js";
import { Transport } from "../transport.js";
import { Utterance } from "../utterance.js";
import { TakesCard } from "./takes.js";

export class SpeakView {
  constructor(models) {
    [this.model] = models;
    this.hearing = null;
    this.settings = new Settings(models, { kinds: kindsOf(this.model) });
    const most = this.model.deployment.limits.max_text_chars;
    this.script = new Script({ value: EXAMPLES.Story, most, speed: () => this.settings.speed, opened: (kind) => this.settings.readAs(kind) });
    this.transport = new Transport({ toggle: () => this.toggle(), seek: (seconds) => this.seek(seconds) });
    this.transport.load(new Utterance({ input: "" }, this.model));
    this.takes = new TakesCard({
      play: (utterance) => this.play(utterance),
      failed: (error) => this.tell(error),
      format: () => this.settings.fields.response_format.value,
      subtitles: () => this.settings.fields.subtitles.value,
    });
    this.figures = speechFigures();
    this.status = el("p", { class: "status", role: "status" });
    this.made = el("span", { class: "status made" }); // changes too often to be announced
    this.error = el("p", { class: "error", role: "alert" });
    this.start = button([icon("play"), "Speak"], () => this.speak(), "primary", { title: "Ctrl+Enter" });
    this.halt = button([icon("stop"), "Stop"], () => this.stop(), "", { disabled: true, title: "Esc" });
    this.code = new CodePanel(() => this.request());
    this.script.changed = () => this.code.update();
    this.settings.changed = () => this.script.update();
    this.root = this.layout();
  }

  layout() {
    const keys = shortcuts({
      speak: () => this.speak(), stop: () => this.stop(), pause: () => this.toggle(), skip: (steps) => this.transport.skip(steps),
    });
    return el(
      "div",
      { class: "speak", keydown: keys },
      el("section", { class: "card writing", "aria-label": "What to say" }, this.script.root),
      el("section", { class: "card choosing", "aria-label": "Settings" }, this.settings.root),
      el("section", { class: "card dock", "aria-label": "Player" },
        this.transport.root,
        el("div", { class: "actions" }, this.start, this.halt, this.status, this.made),
        this.error),
      el("div", { class: "stack after" },
        shortcutLine(),
        this.takes.root,
        el("details", { class: "card" }, el("summary", {}, "Measured in this browser"), this.figures.root),
        el("details", { class: "card" }, el("summary", {}, "The same from code"), this.code.root)),
    );
  }

  /** The request for what is on the page now. */
  request() {
    const { input_type: kind, ...values } = this.settings.values();
    const text = this.script.value;
    if (kind === "dialogue") return { segments: segmentsOf(text), ...values };
    return { input: text, ...values, ...(kind && { input_type: kind }) };
  }

  async speak() {
    this.clearErrors();
    if (!this.settings.check()) return;
    const utterance = new Utterance(this.request(), this.model, { timed: true });
    utterance.changed = (measured) => this.figures.show(measured);
    this.figures.show({});
    await this.play(utterance);
  }

  /** Plays an utterance, a new one or a take, from a time on. */
  async play(utterance, fromS = 0) {
    this.stop();
    const hearing = new Hearing(utterance, () => this.hearing === hearing && this.draw());
    this.hearing = hearing;
    this.transport.load(utterance);
    this.takes.update(utterance);
    try {
      await hearing.run(fromS);
    } catch (error) {
      if (this.hearing === hearing) this.tell(error);
    }
    if (this.hearing !== hearing) return; // another one has begun
    this.draw();
    this.takes.update(utterance);
  }

  stop() {
    this.hearing?.stop();
  }

  /** Pauses, goes on, or plays once more. */
  toggle() {
    const { hearing } = this;
    if (!hearing) return;
    if (!hearing.isOver) hearing.pause(!hearing.isPaused);
    else if (hearing.utterance.isKept) this.play(hearing.utterance);
  }

  seek(seconds) {
    if (this.hearing?.isOver) this.play(this.hearing.utterance, seconds);
    else this.hearing?.seek(seconds);
  }

  // --- what is shown ---

  draw() {
    const { hearing } = this;
    const { utterance } = hearing;
    if (hearing.madeS) this.takes.add(utterance);
    if (utterance.recording?.ended && this.learntFrom !== utterance) {
      this.learntFrom = utterance;
      this.script.update(); // the estimate knows more now
      this.takes.update(utterance);
    }
    this.transport.show(hearing);
    this.script.light(hearing.isOver ? null : utterance.words.at(hearing.positionS), utterance.fields.input);
    this.halt.disabled = hearing.isOver;
    this.start.setAttribute("aria-busy", String(hearing.state === "preparing"));
    announce(this.status, statusOf(hearing));
    this.made.textContent = utterance.isMaking && hearing.madeS ? `${Math.round(this.transport.progress.value * 100)} % made` : "";
  }

  tell(error) {
    if (["input", "text", "messages", "segments"].includes(error.param)) {
      this.script.field.show(error.message);
      this.script.area.focus();
    } else if (!this.settings.showError(error)) {
      this.error.textContent = sentence(error.message);
    }
  }

  clearErrors() {
    this.script.field.clear();
    this.settings.clearErrors();
    this.error.textContent = "";
  }

  leave() {
    this.stop();
  }
}

/** The kinds of text that the server reads, for a choice. */
function kindsOf({ text }) {
  const names = { text: "plain text", markdown: "Markdown", html: "HTML", ssml: "SSML" };
  return [...text.input_types.map((kind) => [kind, names[kind] ?? kind]), ["dialogue", "a dialogue (name: line)"]];
}

/** Says in a few words what is going on. */
function statusOf({ state, madeS, positionS, waitS, isFinished }) {
  if (state === "preparing") return "Preparing …";
  if (state === "buffering") return `Buffering for about ${Math.max(1, Math.round(waitS))} s …`;
  if (state === "paused") return "Paused";
  if (state !== "over" || !madeS) return "";
  return isFinished ? "Finished" : `Stopped at ${clock(positionS)}`;
}
