/** Draws the waveform of the speech so far, and how much of it was played. */

import { el } from "./element.js";

const PEAK_S = 0.01;
const BAR_PX = 3;
const GAP_PX = 2;

export class Waveform {
  constructor() {
    this.canvas = el("canvas", { class: "waveform", role: "img", "aria-label": "Waveform" });
    this.clear(1, 1);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    addEventListener("theme", () => this.draw());
    for (const colours of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(colours).addEventListener("change", () => this.draw());
    }
  }

  clear(sampleRate, channels) {
    this.peakSamples = Math.max(1, Math.round(sampleRate * PEAK_S)) * channels;
    this.peaks = [];
    this.open = 0; // samples in the last peak
    this.playedS = this.expectedS = 0;
    this.draw();
  }

  /** Leaves room for speech of this length while it is being made. */
  expect(seconds) {
    this.expectedS = seconds;
    this.draw();
  }

  push(samples) {
    for (let i = 0; i < samples.length; i += 1) {
      if (!this.open) this.peaks.push(0);
      const last = this.peaks.length - 1;
      this.peaks[last] = Math.max(this.peaks[last], Math.abs(samples[i]));
      this.open = (this.open + 1) % this.peakSamples;
    }
    this.draw();
  }

  playedTo(seconds) {
    this.playedS = seconds;
    this.draw();
  }

  /** Paints at most once per frame of the screen. */
  draw() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = null;
      this.paint();
    });
  }

  paint() {
    const { canvas } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    const scale = devicePixelRatio;
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(canvas);
    const bars = Math.floor((width + GAP_PX) / (BAR_PX + GAP_PX));
    const perBar = Math.max(5, this.peaks.length / bars, this.expectedS / PEAK_S / bars);
    const heard = this.playedS / PEAK_S / perBar;
    for (let bar = 0; bar < bars; bar += 1) {
      const peak = this.highest(Math.floor(bar * perBar), Math.floor((bar + 1) * perBar));
      const isThere = bar * perBar < this.peaks.length;
      const tall = Math.max(2, Math.sqrt(peak / 32768) * height * 0.96);
      context.fillStyle = isThere ? style.getPropertyValue(bar < heard ? "--accent" : "--wave") : style.getPropertyValue("--line");
      context.beginPath();
      context.roundRect(bar * (BAR_PX + GAP_PX), (height - tall) / 2, BAR_PX, tall, BAR_PX / 2);
      context.fill();
    }
  }

  highest(from, to) {
    let highest = 0;
    for (let i = from; i < Math.min(to, this.peaks.length); i += 1) highest = Math.max(highest, this.peaks[i]);
    return highest;
  }
}
