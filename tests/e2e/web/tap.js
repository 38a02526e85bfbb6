// Listens to whatever reaches the loudspeaker, without the page's knowledge.
(() => {
  const { connect } = AudioNode.prototype;
  const { addModule } = AudioWorklet.prototype;
  window.heard = { blocks: [], context: null, clickedFrame: null };
  AudioWorklet.prototype.addModule = async function load(...given) {
    await addModule.call(this, URL.createObjectURL(new Blob([window.tapSource], { type: "text/javascript" })));
    return addModule.apply(this, given);
  };
  AudioNode.prototype.connect = function tapped(target, ...rest) {
    if (target instanceof AudioDestinationNode) {
      const tap = new AudioWorkletNode(this.context, "tap", { numberOfOutputs: 0 });
      tap.port.onmessage = ({ data }) => window.heard.blocks.push({ ...data, arrivedMs: performance.now() });
      window.heard.context = this.context;
      connect.call(this, tap);
    }
    return connect.call(this, target, ...rest);
  };
  const note = () => {
    const { context } = window.heard;
    if (context) window.heard.clickedFrame = Math.round(context.currentTime * context.sampleRate);
  };
  addEventListener("pointerdown", note, true);
  addEventListener("keydown", note, true);
})();
