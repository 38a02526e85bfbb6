/** Reads single files out of a ZIP archive. What the archive says of itself is not believed: what comes out is counted. */

const END = 0x06054b50;
const ENTRY = 0x02014b50;
const END_BYTES = 22;
const MOST_COMMENT_BYTES = 65_535;
const MOST_DIRECTORY_BYTES = 4 * 2 ** 20;
const MOST_BYTES = 64 * 2 ** 20; // of all that is unpacked
const STORED = 0;
const DEFLATED = 8;

export class Archive {
  constructor(file, entries) {
    this.file = file;
    this.entries = entries;
    this.leftBytes = MOST_BYTES;
  }

  static async open(file) {
    const tail = await view(file, Math.max(0, file.size - END_BYTES - MOST_COMMENT_BYTES), file.size);
    let at = tail.byteLength - END_BYTES;
    while (tail.getUint32(at, true) !== END) at -= 1; // a RangeError where there is none
    const [bytes, start] = [tail.getUint32(at + 12, true), tail.getUint32(at + 16, true)];
    if (bytes > MOST_DIRECTORY_BYTES) throw new Error("The archive holds too many files.");
    return new Archive(file, entriesOf(await view(file, start, start + bytes)));
  }

  /** Returns a file as text; throws an Error where it is missing, encrypted, damaged or larger than `mostBytes`. */
  async text(name, mostBytes) {
    const { flags, method, packedBytes, offset } = this.entries.get(name);
    if (flags & 1 || ![STORED, DEFLATED].includes(method)) throw new Error("The archive is encrypted.");
    const head = await view(this.file, offset, offset + 30);
    const start = offset + 30 + head.getUint16(26, true) + head.getUint16(28, true);
    const packed = this.file.slice(start, start + packedBytes).stream();
    const stream = method === STORED ? packed : packed.pipeThrough(new DecompressionStream("deflate-raw"));
    return this.decode(stream, Math.min(mostBytes, this.leftBytes));
  }

  async decode(stream, mostBytes) {
    const decoder = new TextDecoder();
    let [text, bytes] = ["", 0];
    for await (const piece of pieces(stream)) {
      bytes += piece.byteLength;
      if (bytes > mostBytes) throw new Error("The archive holds more than any book.");
      text += decoder.decode(piece, { stream: true });
    }
    this.leftBytes -= bytes;
    return text + decoder.decode();
  }
}

/** Yields what a stream has; a caller that leaves early ends it. */
async function* pieces(stream) {
  const reader = stream.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function view(file, start, stop) {
  return new DataView(await file.slice(start, stop).arrayBuffer());
}

/** The list of files at the end of an archive: where each is, and how it is packed. */
function entriesOf(directory) {
  const entries = new Map();
  for (let at = 0; at + 46 <= directory.byteLength && directory.getUint32(at, true) === ENTRY; ) {
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((place) => directory.getUint16(at + place, true));
    const name = new TextDecoder().decode(new Uint8Array(directory.buffer, at + 46, nameBytes));
    entries.set(name, {
      flags: directory.getUint16(at + 8, true),
      method: directory.getUint16(at + 10, true),
      packedBytes: directory.getUint32(at + 20, true),
      offset: directory.getUint32(at + 42, true),
    });
    at += 46 + nameBytes + extraBytes + commentBytes;
  }
  return entries;
}
