/** Reads a text file that a person opened or dropped. */

const BYTES_PER_CHARACTER = 4;

/** Returns the text; throws an Error with words for the person where it is too long or no text. */
export async function readText(file, mostCharacters) {
  const tooLong = new Error(`${file.name} is too long: at most ${mostCharacters} characters are spoken at once.`);
  if (file.size > mostCharacters * BYTES_PER_CHARACTER) throw tooLong;
  const bytes = await file.arrayBuffer();
  const text = decode(bytes).replace(/\r\n?/g, "\n").trim();
  if (text.includes("\0")) throw new Error(`${file.name} is not a text file.`);
  if (text.length > mostCharacters) throw tooLong;
  return text;
}

/** UTF-8, or what older Windows programs write. */
function decode(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}
