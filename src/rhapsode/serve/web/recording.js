/** The samples of one utterance, kept for replay and download up to a limit. */

import { wavFile } from "./wav.js";

const MOST_BYTES = 64 * 2 ** 20; // 23 minutes at 24 kHz mono

export class Recording {
  constructor(sampleRate, channels) {
    this.sampleRate = sampleRate;
    this.channels = channels;
    this.frames = 0;
    this.pieces = [];
    this.whole = true; // nothing was dropped
    this.ended = false; // nothing is missing at the end
  }

  get durationS() {
    return this.frames / this.sampleRate;
  }

  push(samples) {
    this.frames += samples.length / this.channels;
    if (this.frames * this.channels * 2 > MOST_BYTES) {
      this.whole = false;
      this.pieces = [];
    }
    if (this.whole) this.pieces.push(samples);
  }

  get bytes() {
    return this.whole ? this.frames * this.channels * 2 : 0;
  }

  /** The samples from this frame on, in one piece. */
  samples(fromFrame = 0) {
    const all = new Int16Array((this.frames - fromFrame) * this.channels);
    let at = -fromFrame * this.channels;
    for (const piece of this.pieces) {
      if (at + piece.length > 0) all.set(piece.subarray(Math.max(0, -at)), Math.max(0, at));
      at += piece.length;
    }
    return all;
  }

  /** As a file, in the two formats that need no encoder. */
  file(format) {
    if (!this.whole || !this.ended) return null;
    if (format === "wav") return wavFile(this.pieces, this.sampleRate, this.channels);
    if (format === "pcm") return new Blob(this.pieces, { type: "audio/pcm" });
    return null;
  }
}

/** Saves a file through the browser. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
