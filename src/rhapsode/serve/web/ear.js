/** Plays what a conversation says, piece after piece, as one stream. */

import { SampleFrames } from "./pcm.js";
import { playerAt } from "./player.js";

export class Ear {
  /** `listener` has fresh(), samples(samples), sounded(), played(seconds), waited(times), rested() and failed(error). */
  constructor(model, listener) {
    this.model = model;
    this.listener = listener;
    this.track = null;
    this.queue = [];
    this.queuedFrames = 0;
  }

  /** From a key press or a click: browsers are silent before one. */
  open() {
    this.player = playerAt(this.model.sample_rate, this.model.channels).catch((error) => this.listener.failed(error));
  }

  /** Begins a piece of speech; `beganS` is its time in what is played. */
  begin() {
    this.frames = new SampleFrames(this.model.channels);
    this.beganS = this.queuedFrames / this.model.sample_rate;
  }

  hear(bytes) {
    const samples = this.frames.push(bytes);
    this.queuedFrames += samples.length / this.model.channels;
    this.queue.push(samples);
    this.pump();
  }

  /** Ends a piece; silence after it is a pause. */
  rest() {
    this.queue.push(null);
    this.pump();
  }

  silence() {
    this.queue = [];
    this.queuedFrames = 0;
    this.track?.stop();
    this.track = null;
  }

  /** The player may still be opening when the first samples are there. */
  async pump() {
    const player = await this.player;
    if (!player || !this.queue.length) return;
    if (!this.track || this.track.over) this.track = this.listen(player);
    for (const samples of this.queue.splice(0)) {
      if (samples === null) this.track.rest();
      else {
        this.track.push(samples);
        this.listener.samples(samples);
      }
    }
  }

  listen(player) {
    this.listener.fresh();
    return player.begin({
      started: () => this.listener.sounded(),
      at: ({ played, underruns }) => {
        this.listener.played(played / player.sampleRate);
        this.listener.waited(underruns);
      },
      rested: () => this.listener.rested(),
    });
  }
}
