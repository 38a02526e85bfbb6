/** One utterance, spoken by the server and heard while it comes. */

import { ApiError, outcome, speech } from "./api.js";
import { SampleFrames } from "./pcm.js";
import { playerAt } from "./player.js";
import { Recording } from "./recording.js";

export class Utterance {
  /** `fields` is the request as the person wants it; `model` knows the rate it is made at. */
  constructor(fields, model) {
    this.fields = { ...fields, seed: fields.seed ?? randomSeed() };
    this.model = model;
    this.recording = null;
    this.measured = { firstAudioMs: null, factor: null, longestGapMs: null, underruns: null, silentMs: null };
    this.changed = () => {};
    this.leaving = new AbortController();
    this.track = null;
  }

  /** Speak it. Resolves when the last sample has been played, or it was stopped; `heard` false only fetches it. */
  async speak({ heard = true, onSamples = () => {}, onPlayed = () => {} } = {}) {
    const { sample_rate: sampleRate, channels } = this.model;
    const clickedMs = performance.now();
    const player = heard ? await playerAt(sampleRate, channels) : null;
    const played = player && this.play(player, clickedMs, onPlayed);
    try {
      const wish = { ...this.fields, response_format: "pcm", sample_rate: sampleRate, channels };
      const answer = await speech(wish, this.leaving.signal);
      await this.read(answer, clickedMs, onSamples);
      this.track?.end();
    } catch (error) {
      const stopped = error.name === "AbortError";
      this.stop();
      if (!stopped) throw error;
    }
    await played;
  }

  /** Play what was heard once more. */
  async again({ onPlayed = () => {} } = {}) {
    const { sampleRate, channels } = this.recording;
    const player = await playerAt(sampleRate, channels);
    const played = this.play(player, null, onPlayed);
    this.track.push(this.recording.samples());
    this.track.end();
    await played;
  }

  stop() {
    this.leaving.abort();
    this.track?.stop();
  }

  /** As a file of this format: from what was heard, or made by the server again with the same seed. */
  async file(format) {
    const kept = this.recording?.file(format);
    if (kept) return kept;
    return (await speech({ ...this.fields, response_format: format, stream: false })).blob();
  }

  // --- what comes, and what is played ---

  async read(answer, clickedMs, onSamples) {
    const sampleRate = Number(answer.headers.get("X-Sample-Rate"));
    const channels = Number(answer.headers.get("X-Channels"));
    if (sampleRate !== this.model.sample_rate || channels !== this.model.channels) {
      throw new ApiError(`The server answered at ${sampleRate} Hz in ${channels} channels.`);
    }
    this.recording = new Recording(sampleRate, channels);
    const frames = new SampleFrames(channels);
    let lastMs = null;
    for await (const bytes of pieces(answer)) {
      const nowMs = performance.now();
      if (lastMs !== null) this.measure({ longestGapMs: Math.max(this.measured.longestGapMs ?? 0, nowMs - lastMs) });
      lastMs = nowMs;
      const samples = frames.push(bytes);
      this.track?.push(samples);
      this.recording.push(samples);
      onSamples(samples);
      await this.track?.room();
    }
    this.recording.ended = true;
    this.measure({ factor: (performance.now() - clickedMs) / 1000 / this.recording.durationS });
  }

  play(player, clickedMs, onPlayed) {
    const frameMs = 1000 / player.sampleRate;
    return new Promise((resolve) => {
      const count = ({ underruns, silentFrames, played }) => {
        onPlayed(played / player.sampleRate);
        if (clickedMs !== null) this.measure({ underruns, silentMs: silentFrames * frameMs });
      };
      this.track = player.begin({
        started: () => clickedMs !== null && this.measure({ firstAudioMs: performance.now() - clickedMs }),
        at: count,
        done: (told) => {
          count(told);
          resolve();
        },
        stopped: resolve,
      });
    });
  }

  measure(figures) {
    Object.assign(this.measured, figures);
    this.changed(this.measured);
  }
}

/** The bytes of an answer as they come; one that breaks off tells why. */
async function* pieces(answer) {
  const reader = answer.body.getReader();
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw await brokenOff(answer.headers.get("X-Request-Id"));
  } finally {
    reader.releaseLock();
  }
}

async function brokenOff(requestId) {
  const words = "The stream broke off";
  try {
    const { error } = await outcome(requestId);
    return new ApiError(`${words}: ${error.message}`, { param: error.param, code: error.code });
  } catch {
    return new ApiError(`${words}.`);
  }
}

function randomSeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}
