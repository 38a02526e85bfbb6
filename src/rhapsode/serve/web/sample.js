/** The sample of a voice: recorded, dropped or chosen; heard again before it is used. */

import { button, el, icon } from "./element.js";
import { Field } from "./field.js";
import { Microphone } from "./microphone.js";
import { Waveform } from "./waveform.js";

export class Sample {
  /** `limits`: mostS seconds are recorded, mostBytes taken. `heard` is called while it records. */
  constructor({ mostS, mostBytes }) {
    this.mostS = mostS;
    this.mostBytes = mostBytes;
    this.file = null;
    this.microphone = null;
    this.changed = () => {};
    this.chooser = el("input", { type: "file", accept: "audio/*,video/webm", change: () => this.take(this.chooser.files[0]) });
    this.field = new Field("Sample", this.chooser, { hint: `A few seconds of one voice, at most ${mostS} s.` });
    this.record = button([icon("record"), "Record"], () => this.toggle());
    this.waveform = new Waveform();
    this.waveform.canvas.hidden = true;
    this.player = el("audio", { controls: "", "aria-label": "The sample", hidden: true });
    this.zone = el(
      "div",
      {
        class: "drop",
        dragover: (event) => this.hover(event, true),
        dragleave: (event) => this.hover(event, false),
        drop: (event) => {
          this.hover(event, false);
          this.take(event.dataTransfer.files[0]);
        },
      },
      el("div", { class: "actions" }, this.record, el("span", { class: "hint" }, "or drop a file here, or choose one:")),
      this.field.root,
      this.waveform.canvas,
      this.player,
    );
    this.root = this.zone;
  }

  hover(event, over) {
    event.preventDefault();
    this.zone.classList.toggle("over", over);
  }

  take(file) {
    if (!file) return;
    this.field.clear();
    if (file.size > this.mostBytes) {
      this.field.show(`The file is too large: at most ${Math.floor(this.mostBytes / 2 ** 20)} MiB are taken.`);
      return;
    }
    this.drop();
    this.file = file;
    this.player.src = URL.createObjectURL(file);
    this.player.hidden = false;
    this.changed();
  }

  async toggle() {
    this.field.clear();
    if (this.microphone) return this.finish();
    this.drop();
    try {
      this.microphone = await Microphone.open((samples) => this.listen(samples));
    } catch (error) {
      this.field.show(error.message);
      return;
    }
    this.waveform.clear(this.microphone.sampleRate, 1);
    this.waveform.canvas.hidden = false;
    this.record.replaceChildren(icon("stop"), "Stop recording");
    this.record.classList.add("recording");
  }

  listen(samples) {
    this.waveform.push(samples);
    if (this.microphone?.durationS >= this.mostS) this.finish();
  }

  async finish() {
    const { microphone } = this;
    this.microphone = null;
    this.record.replaceChildren(icon("record"), "Record");
    this.record.classList.remove("recording");
    if (microphone) this.take(await microphone.close());
  }

  /** Let go of what there was. */
  drop() {
    if (this.player.src) URL.revokeObjectURL(this.player.src);
    this.player.removeAttribute("src");
    this.player.hidden = true;
    this.file = null;
    this.changed();
  }

  clear() {
    this.drop();
    this.chooser.value = "";
    this.waveform.canvas.hidden = true;
  }

  /** As a data: URL, which a request can carry. */
  dataUrl() {
    return new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result);
      reader.onerror = () => reject(new Error("The file cannot be read."));
      reader.readAsDataURL(this.file);
    });
  }
}
