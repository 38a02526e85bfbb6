/** Writes a document's headings and paragraphs as Markdown, without code; tables row by row, images by their text. */

const LEFT_OUT = new Set(["code", "head", "nav", "pre", "rp", "rt", "script", "style", "svg", "template"]);
const BLOCKS = new Set([
  "article", "aside", "blockquote", "caption", "dd", "div", "dl", "dt", "figcaption", "figure", "footer", "header", "hr",
  "li", "main", "ol", "p", "section", "table", "tr", "ul",
]);
const HEADING = /^h([1-6])$/;

/** Returns the blocks of a document in order. */
export function markdownOf(document) {
  const writer = new Writer();
  writer.read(document.documentElement);
  writer.end();
  return writer.blocks;
}

class Writer {
  constructor() {
    this.blocks = [];
    this.line = "";
  }

  /** `level` is that of the heading around it. */
  read(node, level = 0) {
    if (node.nodeType === Node.TEXT_NODE || node.nodeType === Node.CDATA_SECTION_NODE) this.line += node.data;
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    const name = node.localName;
    const own = Number(HEADING.exec(name)?.[1] ?? 0);
    if (LEFT_OUT.has(name)) return;
    if (own || BLOCKS.has(name)) this.end(level);
    if (name === "img") this.line += ` ${node.getAttribute("alt") ?? ""} `;
    if (name === "br") this.breakLine(level);
    for (const child of node.childNodes) this.read(child, own || level);
    if ((name === "td" || name === "th") && node.nextElementSibling) this.line += ", ";
    if (own || BLOCKS.has(name)) this.end(own || level);
  }

  breakLine(level) {
    if (level) this.line += " ";
    else this.end();
  }

  end(level = 0) {
    const text = this.line.replace(/\s+/g, " ").trim();
    if (text) this.blocks.push(`${"#".repeat(level)} ${literal(text)}`.trim());
    this.line = "";
  }
}

/** Text that Markdown reads as it is written. */
function literal(text) {
  return text
    .replace(/[\\`*_~[\]<|]/g, "\\$&")
    .replace(/&(?=#?\w{1,31};)/g, "\\&")
    .replace(/^[-+>#=]/, "\\$&")
    .replace(/^(\d+)([.)] )/, "$1\\$2");
}
