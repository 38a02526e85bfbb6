/** A WAV file of 16-bit samples. */

const HEADER_BYTES = 44;

export function wavHeader(dataBytes, sampleRate, channels) {
  const view = new DataView(new ArrayBuffer(HEADER_BYTES));
  const letters = (at, text) => [...text].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  letters(0, "RIFF");
  view.setUint32(4, HEADER_BYTES - 8 + dataBytes, true);
  letters(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, channels, true);
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, sampleRate * channels * 2, true);
  view.setUint16(32, channels * 2, true);
  view.setUint16(34, 16, true);
  letters(36, "data");
  view.setUint32(40, dataBytes, true);
  return view.buffer;
}

/** Pieces of interleaved samples as one file. */
export function wavFile(pieces, sampleRate, channels) {
  const bytes = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  return new Blob([wavHeader(bytes, sampleRate, channels), ...pieces], { type: "audio/wav" });
}
