/** Reads an EPUB in the browser: its pages in reading order, as Markdown. No page of it is shown or run. */

import { Archive } from "./archive.js";
import { markdownOf } from "./markdown.js";

const MOST_PAGE_BYTES = 16 * 2 ** 20;
const MOST_PACKAGE_BYTES = 2 * 2 ** 20;

export async function readEpub(file) {
  try {
    const archive = await Archive.open(file);
    const container = parse(await archive.text("META-INF/container.xml", MOST_PACKAGE_BYTES), "application/xml");
    const name = container.querySelector("rootfile").getAttribute("full-path");
    const book = parse(await archive.text(name, MOST_PACKAGE_BYTES), "application/xml");
    const blocks = [];
    for (const page of spine(book, name)) blocks.push(...markdownOf(document_(await archive.text(page, MOST_PAGE_BYTES))));
    return blocks.join("\n\n");
  } catch {
    throw new Error(`${file.name} is not an EPUB that can be read: it is damaged, encrypted or too large.`);
  }
}

/** The names of the pages, each once. */
function spine(book, name) {
  const items = new Map([...book.querySelectorAll("manifest > item")].map((item) => [item.getAttribute("id"), item]));
  const pages = [...book.querySelectorAll("spine > itemref")]
    .map((reference) => items.get(reference.getAttribute("idref")))
    .filter((item) => item?.getAttribute("media-type")?.includes("html") && !item.getAttribute("properties")?.includes("nav"))
    .map((item) => new URL(item.getAttribute("href"), `http://book/${encodeURI(name)}`).pathname);
  return new Set(pages.map((path) => decodeURIComponent(path.slice(1))));
}

/** A page as XHTML, or as HTML where it is not well-formed. */
function document_(page) {
  try {
    return parse(page, "application/xhtml+xml");
  } catch {
    return new DOMParser().parseFromString(page, "text/html");
  }
}

/** Parsed documents load nothing and run nothing. One that declares entities is refused: they may stand for any length. */
function parse(text, type) {
  const found = text.includes("<!ENTITY") ? null : new DOMParser().parseFromString(text, type);
  if (!found || found.querySelector("parsererror")) throw new Error("The document is not well-formed.");
  return found;
}
