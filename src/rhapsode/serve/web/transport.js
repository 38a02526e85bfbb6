/** The controls of what is heard: the waveform to seek in, pause, the time, and how much is made. */

import { button, el, icon } from "./element.js";
import { clock } from "./figures.js";
import { Waveform } from "./waveform.js";

const STEP_S = 5;

export class Transport {
  /** `toggle` plays or pauses, `seek(seconds)` continues elsewhere. */
  constructor({ toggle, seek }) {
    this.seek = seek;
    this.waveform = new Waveform();
    this.slider = el("input", {
      type: "range", min: "0", max: "0", step: "any", value: "0", disabled: true, class: "seek",
      "aria-label": "Position", keydown: (event) => this.press(event), input: () => seek(Number(this.slider.value)),
    });
    this.play = button([icon("play")], toggle, "round", { disabled: true, "aria-label": "Play", "aria-keyshortcuts": "Alt+K", title: "Play (Alt+K)" });
    this.time = el("span", { class: "time" }, "0:00");
    this.progress = el("progress", { max: "1", value: 0, hidden: true, "aria-label": "Made so far" });
    this.root = el(
      "div",
      { class: "transport" },
      this.play,
      el("div", { class: "seekable" }, this.waveform.canvas, this.slider, this.progress),
      this.time,
    );
  }

  /** Shows an utterance from its beginning; its samples so far are drawn. */
  load(utterance) {
    const { sample_rate: sampleRate, channels } = utterance.model;
    this.utterance = utterance;
    this.drawnFrames = 0;
    this.waveform.clear(sampleRate, channels);
    this.show(null);
  }

  /** Draws the samples that have arrived since the last time. */
  draw({ recording }) {
    if (!recording?.whole || recording.frames === this.drawnFrames) return;
    this.waveform.push(recording.samples(this.drawnFrames));
    this.drawnFrames = recording.frames;
  }

  /** Shows where the hearing is, or the rest position where there is none. */
  show(hearing) {
    const { utterance } = this;
    const madeS = utterance.recording?.durationS ?? 0;
    const { isMaking } = utterance;
    const totalS = isMaking ? Math.max(madeS, utterance.expectedS) : madeS;
    const positionS = hearing?.positionS ?? 0;
    this.draw(utterance);
    const isActive = Boolean(hearing) && !hearing.isOver;
    this.waveform.expect(isMaking ? totalS : 0);
    this.waveform.playedTo(positionS);
    this.root.dataset.state = hearing?.state ?? "over";
    this.slider.max = String(totalS || 1);
    this.slider.value = String(positionS);
    this.slider.disabled = !utterance.recording?.whole;
    this.slider.setAttribute("aria-valuetext", `${clock(positionS)} of ${clock(totalS)}`);
    this.time.textContent = totalS ? `${clock(positionS)} / ${isMaking ? "~" : ""}${clock(totalS)}` : clock(0);
    this.progress.hidden = !isMaking;
    this.progress.value = totalS ? Math.min(0.99, madeS / totalS) : 0;
    this.name(isActive && hearing.state !== "paused" ? "Pause" : "Play");
    this.play.disabled = !(isActive || utterance.isKept);
  }

  name(action) {
    if (this.play.ariaLabel === action) return;
    this.play.replaceChildren(icon(action.toLowerCase()));
    this.play.ariaLabel = action;
    this.play.title = `${action} (Alt+K)`;
  }

  /** Moves by so many steps of five seconds. */
  skip(steps) {
    if (!this.slider.disabled) this.seek(Math.max(0, Number(this.slider.value) + steps * STEP_S));
  }

  press(event) {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!steps) return;
    event.preventDefault();
    this.skip(steps);
  }
}
