/** The microphone, as a WAV file: untouched by the browser's echo and noise filters. */

import { wavFile } from "./wav.js";

const WISH = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };

export class Microphone {
  /** `onSamples` is called while it listens. */
  static async open(onSamples) {
    if (!navigator.mediaDevices) throw new Error("A browser opens the microphone only for https or for this machine.");
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: WISH });
    } catch (error) {
      throw new Error(error.name === "NotAllowedError" ? "The browser was not allowed to use the microphone." : "No microphone was found.");
    }
    const context = new AudioContext();
    await context.audioWorklet.addModule(new URL("worklets/capture.js", import.meta.url));
    return new Microphone(stream, context, onSamples);
  }

  constructor(stream, context, onSamples) {
    this.stream = stream;
    this.context = context;
    this.pieces = [];
    this.node = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    this.node.port.onmessage = ({ data }) => {
      this.pieces.push(data);
      onSamples(data);
    };
    context.createMediaStreamSource(stream).connect(this.node);
  }

  get sampleRate() {
    return this.context.sampleRate;
  }

  get durationS() {
    return this.pieces.reduce((sum, piece) => sum + piece.length, 0) / this.sampleRate;
  }

  /** What was said, as a file. */
  async close() {
    this.stream.getTracks().forEach((track) => track.stop());
    await this.context.close();
    return wavFile(this.pieces, this.sampleRate, 1);
  }
}
