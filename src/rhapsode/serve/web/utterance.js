/** One utterance: what was asked for, what the server made of it, and what was measured. */

import { ApiError, speech } from "./api.js";
import { estimate } from "./estimate.js";
import { SampleFrames } from "./pcm.js";
import { Recording } from "./recording.js";
import { parts } from "./stream.js";
import { Words, announcesWords } from "./words.js";

export class Utterance {
  /** `fields` is the request; `model` says what to ask for; `timed` asks for the times of words, where they are announced. */
  constructor(fields, model, { timed = false } = {}) {
    this.fields = { ...fields, seed: fields.seed ?? randomSeed() };
    this.model = model;
    this.text = fields.input ?? fields.segments.map(({ input }) => input).join("\n"); // as the server counts its characters
    this.expectedS = estimate.secondsFor(this.text, fields.speed);
    this.recording = null;
    this.isTimed = timed && announcesWords(model, fields.language);
    this.words = new Words();
    this.measured = { firstAudioMs: null, factor: null, longestGapMs: null, underruns: null, silentMs: null };
    this.changed = () => {};
    this.isMaking = false;
    this.leaving = new AbortController();
  }

  /** Whether it can be played: the server is done with it, or was stopped, and nothing was dropped. */
  get isKept() {
    return Boolean(this.recording?.whole && this.recording.frames && !this.isMaking);
  }

  /** Has the server speak it. `onSamples` gets the samples as they arrive; reading waits for what it returns. */
  async make(onSamples = () => {}) {
    const startedMs = performance.now();
    this.isMaking = true;
    try {
      await this.read(await this.ask(), startedMs, onSamples);
    } finally {
      this.isMaking = false;
    }
  }

  abort() {
    this.leaving.abort();
  }

  /** Returns it as a file of this format: from the recording, or made by the server again with the same seed. */
  async file(format) {
    const kept = this.recording?.file(format);
    if (kept) return kept;
    return (await speech({ ...this.fields, response_format: format, stream: false })).blob();
  }

  measure(figures) {
    Object.assign(this.measured, figures);
    this.changed(this.measured);
  }

  /** Returns the response; a text whose words cannot be timed is spoken without their times. */
  async ask() {
    const { sample_rate, channels } = this.model;
    const plain = { ...this.fields, response_format: "pcm", sample_rate, channels };
    const { signal } = this.leaving;
    if (!this.isTimed) return speech(plain, signal);
    try {
      return await speech({ ...plain, stream_format: "sse", word_timestamps: true }, signal);
    } catch (error) {
      if (error.param !== "word_timestamps") throw error;
      return speech(plain, signal);
    }
  }

  async read(answer, startedMs, onSamples) {
    const sampleRate = Number(answer.headers.get("X-Sample-Rate"));
    const channels = Number(answer.headers.get("X-Channels"));
    if (sampleRate !== this.model.sample_rate || channels !== this.model.channels) {
      throw new ApiError(`The server answered at ${sampleRate} Hz in ${channels} channels.`);
    }
    this.recording = new Recording(sampleRate, channels);
    const frames = new SampleFrames(channels);
    let lastMs = null;
    for await (const { bytes, words } of parts(answer)) {
      if (words) this.words.push(words);
      if (!bytes) continue;
      const nowMs = performance.now();
      if (lastMs !== null) this.measure({ longestGapMs: Math.max(this.measured.longestGapMs ?? 0, nowMs - lastMs) });
      lastMs = nowMs;
      const samples = frames.push(bytes);
      this.recording.push(samples);
      await onSamples(samples);
    }
    this.recording.ended = true;
    const { durationS } = this.recording;
    this.measure({ factor: (performance.now() - startedMs) / 1000 / durationS });
    estimate.learn(this.text, durationS, this.fields.speed);
  }
}

function randomSeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}
