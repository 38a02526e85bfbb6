/** 16-bit PCM as it comes off the network: cut anywhere, also inside a sample. */

export class SampleFrames {
  /** A sample frame is one sample of each channel, interleaved. */
  constructor(channels) {
    this.bytesPerFrame = 2 * channels;
    this.rest = new Uint8Array(0);
  }

  /** The whole sample frames there are now; what is left over waits for the next bytes. */
  push(bytes) {
    const all = new Uint8Array(this.rest.length + bytes.length);
    all.set(this.rest);
    all.set(bytes, this.rest.length);
    const whole = all.length - (all.length % this.bytesPerFrame);
    this.rest = all.slice(whole);
    return new Int16Array(all.buffer, 0, whole / 2);
  }
}
