/** Reads a dialogue: `name: line`, or `[name]: line` as in scripts of the command line; `[pause 1.5]` is a pause. */

const LINE = /^(?:\[([^\]]{1,64})\]|([^\s:.,;!?][^:.,;!?]{0,63}?))\s*:\s+(.*)$/;
const PAUSE = /^\[pause\s+(\d{1,2}(?:\.\d{1,3})?)\s*s?\]$/i;

/** Returns the segments of a request. A line without a name goes on with the line before. */
export function segmentsOf(text) {
  const segments = [];
  let pauseS = 0;
  for (const line of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const pause = PAUSE.exec(line);
    const [, bracketed, plain, said] = LINE.exec(line) ?? [];
    const last = segments.at(-1);
    if (pause) pauseS += Number(pause[1]);
    else if (last && said === undefined && !pauseS) last.input += ` ${line}`;
    else {
      const voice = bracketed ?? plain ?? last?.voice;
      segments.push({ input: said ?? line, ...(voice && { voice }), ...(pauseS && { pause_s: pauseS }) });
      pauseS = 0;
    }
  }
  return segments;
}
