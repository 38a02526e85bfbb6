registerProcessor("tap", class extends AudioWorkletProcessor {
  process([input]) {
    if (input.some((channel) => channel.some((sample) => sample !== 0))) {
      this.port.postMessage({ frame: currentFrame, channels: input.map((channel) => Array.from(channel)) });
    }
    return true;
  }
});
