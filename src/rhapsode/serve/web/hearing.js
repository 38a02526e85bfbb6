/** One utterance being heard: played while it is made, paused, continued at another place. */

import { Buffering } from "./buffering.js";
import { playerAt } from "./player.js";

export class Hearing {
  /** `changed` is called whenever the state, the position or what is there to play has changed. */
  constructor(utterance, changed = () => {}) {
    this.utterance = utterance;
    this.changed = changed;
    this.positionS = 0;
    this.isPaused = this.isOver = this.isFinished = false;
    this.isHeld = true; // the player waits for more
    this.track = null;
    this.buffering = new Buffering(utterance.expectedS);
  }

  get state() {
    if (this.isOver) return "over";
    if (this.isPaused) return "paused";
    if (!this.isHeld) return "playing";
    return this.madeS ? "buffering" : "preparing";
  }

  get madeS() {
    return this.utterance.recording?.durationS ?? 0;
  }

  /** The seconds until the player goes on, as far as they can be known. */
  get waitS() {
    return Math.max(0, this.buffering.neededS - (this.madeS - this.positionS));
  }

  /** Plays it, and has it made first where it is new. Resolves when the last sample was played or it was stopped. */
  async run(fromS = 0) {
    const clickedMs = performance.now();
    const { utterance } = this;
    const { sample_rate: sampleRate, channels } = utterance.model;
    this.changed(this);
    const player = await playerAt(sampleRate, channels);
    if (this.isOver) return;
    const isNew = !utterance.isKept;
    const played = this.play(player, isNew ? clickedMs : null);
    try {
      if (isNew) await utterance.make((samples) => this.take(samples));
      else this.seek(fromS);
      this.finishMaking();
    } catch (error) {
      this.stop();
      if (error.name !== "AbortError") throw error;
    }
    await played;
  }

  pause(isPaused) {
    if (this.isOver) return;
    this.isPaused = isPaused;
    this.track?.pause(isPaused);
    this.changed(this);
  }

  /** Continues at this time, as far as there is speech already. */
  seek(seconds) {
    const { recording } = this.utterance;
    if (this.isOver || !this.track || !recording?.whole) return;
    const frame = Math.round(Math.max(0, Math.min(seconds, recording.durationS)) * recording.sampleRate);
    this.track.seek(frame);
    this.track.push(recording.samples(frame));
    this.positionS = frame / recording.sampleRate;
    if (this.utterance.isMaking) this.judge();
    else this.finishMaking();
  }

  stop() {
    this.utterance.abort();
    this.track?.stop();
    this.close();
  }

  // --- what arrives, and what is played ---

  take(samples) {
    if (this.isOver) return undefined;
    this.track.push(samples);
    this.buffering.arrived(performance.now(), this.madeS);
    this.judge();
    return this.track.room();
  }

  finishMaking() {
    if (this.isOver) return;
    this.buffering.end();
    this.track.end();
    this.isHeld = false;
    this.changed(this);
  }

  /** Lets the player go on once enough is ahead. */
  judge() {
    if (this.isHeld && this.madeS - this.positionS >= this.buffering.neededS) {
      this.isHeld = false;
      this.track.go();
    }
    this.changed(this);
  }

  play(player, clickedMs) {
    const { utterance } = this;
    return new Promise((resolve) => {
      const at = ({ underruns, silentFrames, played }) => {
        this.positionS = played / player.sampleRate;
        if (clickedMs !== null) utterance.measure({ underruns, silentMs: (silentFrames * 1000) / player.sampleRate });
        this.changed(this);
      };
      const close = () => {
        this.close();
        resolve();
      };
      this.track = player.begin(
        {
          started: () => {
            if (clickedMs !== null && utterance.measured.firstAudioMs === null) {
              utterance.measure({ firstAudioMs: performance.now() - clickedMs });
            }
          },
          at,
          dry: (told) => {
            this.isHeld = utterance.isMaking;
            this.buffering.ranDry();
            at(told);
            this.judge();
          },
          done: (told) => {
            this.isFinished = true;
            at(told);
            close();
          },
          stopped: () => {
            utterance.abort(); // something else is played now
            close();
          },
        },
        { buffers: true },
      );
    });
  }

  close() {
    if (this.isOver) return;
    this.isOver = true;
    this.changed(this);
  }
}
