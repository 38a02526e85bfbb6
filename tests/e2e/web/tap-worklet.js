registerProcessor("tap", class extends AudioWorkletProcessor {
  process([input]) {
    const channel = input[0];
    if (channel?.some((sample) => sample !== 0)) {
      this.port.postMessage({ frame: currentFrame, samples: Array.from(channel) });
    }
    return true;
  }
});
