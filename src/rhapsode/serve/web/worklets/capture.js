/** Hands on what it hears as 16-bit samples, in pieces worth a message. */

const PIECE_FRAMES = 2048;

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(PIECE_FRAMES);
    this.filled = 0;
  }

  process([[channel]]) {
    for (const sample of channel ?? []) {
      this.piece[this.filled] = Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
      this.filled += 1;
      if (this.filled === PIECE_FRAMES) {
        this.port.postMessage(this.piece, [this.piece.buffer]);
        this.piece = new Int16Array(PIECE_FRAMES);
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("capture", Capture);
