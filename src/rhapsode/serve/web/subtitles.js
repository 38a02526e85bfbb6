/** Subtitles from words with times: SubRip (.srt) and WebVTT (.vtt), cut as the command line cuts them. */

const LINE_CHARS = 42;
const LINES = 2;
const SHORTEST_S = 1;
const LONGEST_S = 7;
const PAUSE_S = 1; // a longer silence ends a cue
const SENTENCE_END = /[.!?…。！？]["'”’»)\]]*$/;
const CLAUSE_END = /[,;:—–，；：、]["'”’»)\]]*$/;
const LEADING_SIGNS = /^[.,;:!?…。！？，；：、"'”’»)\]]*/;

/** Returns the content of a file; `isMarked` says that the text has marks, which are not shown. */
export function subtitles(text, words, kind, isMarked = false) {
  const groups = groupsOf(shownWords(text, words, isMarked));
  const cues = groups.map((group, i) => cueOf(group, groups[i + 1], i + 1, kind));
  return `${[...(kind === "vtt" ? ["WEBVTT"] : []), ...cues].join("\n\n")}\n`;
}

function cueOf(group, following, number, kind) {
  const startS = group[0].start;
  const latestS = following ? following[0].start : group.at(-1).end + SHORTEST_S;
  const endS = Math.max(group.at(-1).end, Math.min(startS + SHORTEST_S, latestS));
  const mark = kind === "srt" ? "," : ".";
  const lines = linesOf(group).map((line) => (kind === "vtt" ? line.replaceAll("&", "&amp;").replaceAll("<", "&lt;") : line));
  return [number, `${clock(startS, mark)} --> ${clock(endS, mark)}`, ...lines].join("\n");
}

/** Words with the signs around them. What stands between two words belongs to the first, up to the last blank. */
function shownWords(text, words, isMarked) {
  let prefix = /\S*$/.exec(isMarked ? "" : text.slice(0, words[0]?.from ?? 0))[0];
  return words.map(({ word, start, end, from, to }, i) => {
    const next = words[i + 1];
    const between = text.slice(to, next?.from ?? text.length);
    const endsBlock = isMarked && Boolean(next) && between.includes("\n");
    const own = isMarked ? signsOf(between) : next ? between.replace(/\s\S*$/, "") : between;
    const shown = `${prefix}${isMarked ? word : text.slice(from, to)}${own}`.replace(/\s+/g, " ").trim();
    prefix = isMarked || !next ? "" : (/\s(\S*)$/.exec(between)?.[1] ?? "");
    return { text: shown, start, end, endsBlock };
  });
}

function signsOf(between) {
  return LEADING_SIGNS.exec(between.replace(/<[^<>]*>|[*_~`]/g, ""))[0];
}

function groupsOf(words) {
  const groups = [];
  let group = [];
  const close = (count = group.length) => groups.push(group.splice(0, count));
  for (const word of words) {
    if (group.length && !fits([...group, word])) close(clauseCut(group));
    if (group.length && word.start - group.at(-1).end > PAUSE_S) close();
    group.push(word);
    if (word.endsBlock || SENTENCE_END.test(word.text)) close();
  }
  if (group.length) close();
  return groups;
}

function fits(group) {
  const lines = linesOf(group);
  return lines.length <= LINES && lines.every((line) => line.length <= LINE_CHARS) && group.at(-1).end - group[0].start <= LONGEST_S;
}

/** How many words of a full cue to keep: up to the end of a clause in its second half, else all. */
function clauseCut(group) {
  const last = group.findLastIndex(({ text }) => CLAUSE_END.test(text)) + 1;
  return 2 * last >= group.length && last ? last : group.length;
}

/** One line, or two of about the same length. */
function linesOf(group) {
  const texts = group.map(({ text }) => text);
  const whole = texts.join(" ");
  if (whole.length <= LINE_CHARS || texts.length === 1) return [whole];
  const halves = texts.slice(1).map((_, i) => [texts.slice(0, i + 1).join(" "), texts.slice(i + 1).join(" ")]);
  const longest = (lines) => Math.max(...lines.map((line) => line.length));
  return halves.reduce((best, lines) => (longest(lines) < longest(best) ? lines : best));
}

function clock(seconds, mark) {
  const ms = Math.round(seconds * 1000);
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  return `${two(ms / 3_600_000)}:${two((ms / 60_000) % 60)}:${two((ms / 1000) % 60)}${mark}${String(ms % 1000).padStart(3, "0")}`;
}
