/** Plays samples through one audio graph at their own rate, so that no sample is changed. */

const MOST_AHEAD_S = 600;

let open = null;

/** The page's player at this rate; call it from a click, since browsers are silent before one. */
export async function playerAt(sampleRate, channels) {
  if (open && (open.sampleRate !== sampleRate || open.channels !== channels)) {
    open.silence();
    open.ready.then((player) => player.context.close(), () => {});
    open = null;
  }
  open ??= new Player(sampleRate, channels);
  const player = open;
  player.context.resume();
  try {
    await player.ready;
  } catch (error) {
    if (open === player) open = null;
    throw error;
  }
  return player;
}

class Player {
  constructor(sampleRate, channels) {
    this.sampleRate = sampleRate;
    this.channels = channels;
    this.context = new AudioContext({ sampleRate, latencyHint: "interactive" });
    this.track = null;
    this.count = 0;
    this.ready = this.build();
  }

  async build() {
    await this.context.audioWorklet.addModule(new URL("worklets/playback.js", import.meta.url));
    const shape = { numberOfInputs: 0, outputChannelCount: [this.channels] };
    this.node = new AudioWorkletNode(this.context, "playback", shape);
    this.node.port.onmessage = ({ data }) => this.track?.hear(data);
    this.node.connect(this.context.destination);
    return this;
  }

  /**
   * Begins a new track; what was playing stops. `listener` has started, at, dry, done and stopped.
   * A track that `buffers` plays after `go`, and again after it has run dry.
   */
  begin(listener = {}, { buffers = false } = {}) {
    this.silence();
    this.count += 1;
    this.track = new Track(this, this.count, listener);
    this.tell({ kind: "begin", track: this.count, buffers });
    return this.track;
  }

  silence() {
    this.track?.stop();
  }

  tell(message, transfer = []) {
    this.node?.port.postMessage(message, transfer);
  }
}

/** One stream of samples that is being played. */
class Track {
  constructor(player, id, listener) {
    this.player = player;
    this.id = id;
    this.listener = listener;
    this.pushedFrames = 0;
    this.playedFrames = 0;
    this.over = false;
    this.waiting = [];
  }

  push(samples) {
    if (this.over || !samples.length) return;
    this.pushedFrames += samples.length / this.player.channels;
    const copy = samples.slice(); // the caller keeps its own
    this.player.tell({ kind: "push", track: this.id, samples: copy }, [copy.buffer]);
  }

  go() {
    this.player.tell({ kind: "go", track: this.id });
  }

  pause(paused) {
    this.player.tell({ kind: "pause", track: this.id, paused });
  }

  /** Continues at this frame; the caller pushes the samples from there on. */
  seek(frame) {
    this.pushedFrames = this.playedFrames = frame;
    this.player.tell({ kind: "seek", track: this.id, frame });
  }

  /** No more for now; silence is a pause until more is pushed. */
  rest() {
    this.player.tell({ kind: "rest", track: this.id });
  }

  end() {
    this.player.tell({ kind: "end", track: this.id });
  }

  /** Stops at once. */
  stop() {
    if (this.over) return;
    this.player.tell({ kind: "stop", track: this.id });
    this.finish("stopped", {});
  }

  /** Resolves when less than ten minutes are buffered. */
  async room() {
    while (!this.over && this.pushedFrames - this.playedFrames > MOST_AHEAD_S * this.player.sampleRate) {
      await new Promise((resolve) => this.waiting.push(resolve));
    }
  }

  hear(told) {
    if (told.track !== this.id || this.over) return;
    this.playedFrames = told.played;
    if (told.kind === "done") this.finish("done", told);
    else this.listener[told.kind]?.(told);
    this.wake();
  }

  finish(how, told) {
    this.over = true;
    if (this.player.track === this) this.player.track = null;
    this.listener[how]?.(told);
    this.wake();
  }

  wake() {
    this.waiting.splice(0).forEach((resolve) => resolve());
  }
}
