/** Cuts a Markdown document into parts that can be spoken one by one: all of it, its chapters, pieces of long chapters. */

const HEADING = /^ {0,3}#{1,3}[ \t]+(.*?)[ \t]*#*$/;
const FENCE = /^ {0,3}(```|~~~)/;
const MOST_PARTS = 5000;

/** Returns `{title, text}` of each part, with at most `most` characters. */
export function partsOf(document, most) {
  const cut = chaptersOf(document).flatMap(({ title, text }) => {
    const pieces = piecesOf(text, most);
    return pieces.map((piece, i) => ({ title: pieces.length > 1 ? `${title} (${i + 1} of ${pieces.length})` : title, text: piece }));
  });
  if (cut.length > MOST_PARTS) throw new Error(`There are more than ${MOST_PARTS} chapters.`);
  const isShort = cut.length && document.length <= most;
  return isShort ? [{ title: "All of it", text: document }, ...(cut.length > 1 ? cut : [])] : cut;
}

function chaptersOf(document) {
  const chapters = [{ title: "Beginning", lines: [] }];
  let fence = null;
  for (const line of document.split("\n")) {
    const mark = FENCE.exec(line)?.[1];
    if (mark && (!fence || fence === mark)) fence = fence ? null : mark;
    const heading = fence ? null : HEADING.exec(line);
    if (heading) chapters.push({ title: heading[1].replace(/\\(\W)/g, "$1") || "–", lines: [] });
    chapters.at(-1).lines.push(line);
  }
  return chapters.map(({ title, lines }) => ({ title, text: lines.join("\n").trim() })).filter(({ text }) => text);
}

/** Cuts between paragraphs; a paragraph that is too long between words. */
function piecesOf(text, most) {
  const pieces = [""];
  for (const paragraph of text.split(/\n{2,}/).flatMap((one) => wordsOf(one, most))) {
    const joined = pieces.at(-1) ? `${pieces.at(-1)}\n\n${paragraph}` : paragraph;
    if (joined.length <= most) pieces[pieces.length - 1] = joined;
    else pieces.push(paragraph);
  }
  return pieces;
}

function wordsOf(paragraph, most) {
  const found = [];
  let rest = paragraph;
  while (rest.length > most) {
    const blank = rest.lastIndexOf(" ", most);
    const at = blank > 0 ? blank : most;
    found.push(rest.slice(0, at));
    rest = rest.slice(at).trimStart();
  }
  return [...found, rest];
}
