/** Plays what it is handed, sample for sample, and counts the times there was nothing to play. */

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
    this.underruns = this.silentFrames = this.waitedFrames = 0;
  }

  begin({ track }) {
    this.clear(track);
  }

  push({ track, samples }) {
    if (track !== this.track || this.stopping) return;
    this.pieces.push(samples);
    this.resting = false;
    if (this.waitedFrames) {
      // Only now is it known that the silence was a gap, and not the end.
      this.underruns += 1;
      this.silentFrames += this.waitedFrames;
      this.waitedFrames = 0;
    }
  }

  /** Silence is nobody's fault until more comes: a pause between two utterances. */
  rest({ track }) {
    if (track !== this.track) return;
    this.resting = true;
    this.waitedFrames = 0;
  }

  end({ track }) {
    if (track === this.track) this.ended = true;
  }

  stop({ track }) {
    if (track === this.track) this.stopping = true;
  }

  process(_inputs, [output]) {
    if (this.track === null) return true;
    const frames = output[0].length;
    const filled = this.fill(output);
    if (this.stopping) {
      fade(output);
      this.tell("stopped");
      this.clear(null);
      return true;
    }
    if (filled && !this.started) {
      this.started = true;
      this.tell("started");
    }
    this.played += filled;
    if (filled < frames && this.ended) {
      this.tell("done");
      this.clear(null);
    } else if (filled < frames && this.resting) {
      this.started = false;
    } else if (filled < frames && this.started) {
      this.waitedFrames += frames - filled;
    } else if (this.played - this.reported >= REPORT_FRAMES) {
      this.reported = this.played;
      this.tell("at");
    }
    return true;
  }

  /** How many frames there were for this block. */
  fill(output) {
    const channels = output.length;
    let at = 0;
    while (at < output[0].length && this.pieces.length) {
      const piece = this.pieces[0];
      const take = Math.min(output[0].length - at, (piece.length - this.offset) / channels);
      for (let channel = 0; channel < channels; channel += 1) {
        for (let i = 0; i < take; i += 1) {
          output[channel][at + i] = piece[this.offset + i * channels + channel] / 32768;
        }
      }
      at += take;
      this.offset += take * channels;
      if (this.offset === piece.length) {
        this.pieces.shift();
        this.offset = 0;
      }
    }
    return at;
  }

  tell(kind) {
    const { track, played, underruns, silentFrames } = this;
    this.port.postMessage({ kind, track, played, underruns, silentFrames, contextS: currentTime });
  }
}

/** To nothing within one block, so that stopping does not click. */
function fade(output) {
  for (const channel of output) {
    for (let i = 0; i < channel.length; i += 1) channel[i] *= 1 - (i + 1) / channel.length;
  }
}

registerProcessor("playback", Playback);
