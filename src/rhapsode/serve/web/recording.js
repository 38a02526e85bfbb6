/** What was heard, kept for playing it again and for saving it; within bounds. */

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

  /** All of it, in one piece. */
  samples() {
    const all = new Int16Array(this.frames * this.channels);
    let at = 0;
    for (const piece of this.pieces) {
      all.set(piece, at);
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

/** Hand a file to the person, and let go of it. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
