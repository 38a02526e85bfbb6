/** Reads a file that a person opened or dropped: plain text, Markdown, HTML or EPUB. */

import { readEpub } from "./epub.js";
import { partsOf } from "./parts.js";

const BYTES_PER_CHARACTER = 4;
const MOST_DOCUMENT_BYTES = 16 * 2 ** 20; // of Markdown, which is cut into parts
const KINDS = { md: "markdown", markdown: "markdown", html: "html", htm: "html", xhtml: "html", epub: "epub" };

export const OPENS = ".txt,.md,.markdown,.html,.htm,.xhtml,.epub,text/plain,text/markdown,text/html,application/epub+zip";

/** Returns its parts, `{title, text}`, and their input type; throws an Error with words for the person. */
export async function readFile(file, mostCharacters) {
  const kind = KINDS[/\.(\w+)$/.exec(file.name)?.[1].toLowerCase()] ?? "text";
  if (kind === "epub") return { inputType: "markdown", parts: partsOf(await readEpub(file), mostCharacters) };
  const isCut = kind === "markdown";
  const tooLong = new Error(`${file.name} is too long: at most ${mostCharacters} characters are spoken at once.`);
  if (file.size > (isCut ? MOST_DOCUMENT_BYTES : mostCharacters * BYTES_PER_CHARACTER)) throw tooLong;
  const text = decode(await file.arrayBuffer()).replace(/\r\n?/g, "\n").trim();
  if (text.includes("\0")) throw new Error(`${file.name} is not a text file.`);
  if (!isCut && text.length > mostCharacters) throw tooLong;
  return { inputType: kind, parts: isCut ? partsOf(text, mostCharacters) : [{ title: file.name, text }] };
}

/** UTF-8, or what older Windows programs write. */
function decode(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}
