/** Plays the samples it is given, sample for sample, and counts the times there was nothing to play. */

const REPORT_FRAMES = 1024;

class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this.clear(null);
    this.port.onmessage = ({ data }) => this[data.kind](data);
  }

  clear(track) {
    this.track = track;
    this.pieces = [];
    this.offset = 0;
    this.played = 0;
    this.reported = 0;
    this.started = this.ended = this.stopping = this.resting = false;
    this.buffers = this.held = this.paused = this.wasAudible = false;
    this.underruns = this.silentFrames = this.waitedFrames = 0;
  }

  /** A track that `buffers` is silent until `go`, and again after it has run dry. */
  begin({ track, buffers = false }) {
    this.clear(track);
    this.buffers = this.held = buffers;
  }

  push({ track, samples }) {
    if (track !== this.track || this.stopping) return;
    this.pieces.push(samples);
    this.resting = false;
    if (!this.held) this.countGap();
  }

  go({ track }) {
    if (track !== this.track || !this.held) return;
    this.held = false;
    this.countGap();
  }

  pause({ track, paused }) {
    if (track === this.track) this.paused = paused;
  }

  /** Continues at another sample frame; the samples from there on are pushed next. */
  seek({ track, frame }) {
    if (track !== this.track || this.stopping) return;
    this.pieces = [];
    this.offset = this.waitedFrames = 0;
    this.played = this.reported = frame;
    this.started = this.ended = false;
    this.tell("at");
  }

  /** Silence from here on is a pause between two utterances, not an underrun. */
  rest({ track }) {
    if (track !== this.track) return;
    this.resting = true;
    this.waitedFrames = 0;
  }

  end({ track }) {
    if (track !== this.track) return;
    this.ended = true;
    if (this.held && this.pieces.length) this.countGap();
    this.held = false;
  }

  stop({ track }) {
    if (track === this.track) this.stopping = true;
  }

  process(_inputs, [output]) {
    if (this.track === null) return true;
    const isPausing = this.paused && this.wasAudible;
    const filled = this.held || (this.paused && !isPausing) ? 0 : this.fill(output, isPausing);
    if (isPausing || this.stopping) fade(output); // so that it does not click
    this.wasAudible = filled > 0 && !this.paused;
    if (isPausing) this.tell("at");
    if (!this.paused) this.played += filled;
    if (this.stopping) {
      this.tell("stopped");
      this.clear(null);
    } else if (this.held) {
      if (this.started && !this.paused) this.waitedFrames += output[0].length;
    } else if (!this.paused) {
      this.report(filled, output[0].length);
    }
    return true;
  }

  report(filled, frames) {
    if (filled && !this.started) {
      this.started = true;
      this.tell("started");
    }
    if (filled < frames && this.ended) {
      this.tell("done");
      this.clear(null);
    } else if (filled < frames && this.resting) {
      if (this.started) this.tell("rested");
      this.started = false;
    } else if (filled < frames && this.started) {
      this.waitedFrames += frames - filled;
      this.held = this.buffers;
      if (this.held) this.tell("dry");
    } else if (this.played - this.reported >= REPORT_FRAMES) {
      this.reported = this.played;
      this.tell("at");
    }
  }

  /** Counts the silence since the last sample as an underrun: only now is it known that it was not the end. */
  countGap() {
    if (!this.waitedFrames) return;
    this.underruns += 1;
    this.silentFrames += this.waitedFrames;
    this.waitedFrames = 0;
  }

  /** Fills a block from the pieces and returns how many frames there were; `keep` leaves the pieces as they are. */
  fill(output, keep) {
    const channels = output.length;
    let [at, index, offset] = [0, 0, this.offset];
    while (at < output[0].length && index < this.pieces.length) {
      const piece = this.pieces[index];
      const take = Math.min(output[0].length - at, (piece.length - offset) / channels);
      for (let channel = 0; channel < channels; channel += 1) {
        for (let i = 0; i < take; i += 1) output[channel][at + i] = piece[offset + i * channels + channel] / 32768;
      }
      at += take;
      offset += take * channels;
      if (offset === piece.length) [index, offset] = [index + 1, 0];
    }
    if (!keep) {
      this.pieces.splice(0, index);
      this.offset = offset;
    }
    return at;
  }

  tell(kind) {
    const { track, played, underruns, silentFrames } = this;
    this.port.postMessage({ kind, track, played, underruns, silentFrames });
  }
}

/** To nothing within one block. */
function fade(output) {
  for (const channel of output) {
    for (let i = 0; i < channel.length; i += 1) channel[i] *= 1 - (i + 1) / channel.length;
  }
}

registerProcessor("playback", Playback);
