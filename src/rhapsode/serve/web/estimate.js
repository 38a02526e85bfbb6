/** Estimates how long a text takes to say, learnt from what was spoken on this page. */

const USUAL = { characters: 60, spokenS: 4 }; // until something was spoken
const MEMORY = 0.5; // the weight of what was learnt before, at each new text

export class LengthEstimate {
  constructor() {
    this.learnt = { ...USUAL };
  }

  learn(text, spokenS, speed = 1) {
    const { characters, spokenS: before } = this.learnt;
    this.learnt = { characters: MEMORY * characters + countOf(text), spokenS: MEMORY * before + spokenS * speed };
  }

  secondsFor(text, speed = 1) {
    const { characters, spokenS } = this.learnt;
    return ((countOf(text) / characters) * spokenS) / speed;
  }
}

export const estimate = new LengthEstimate();

/** Characters without the white space that nobody hears. */
function countOf(text) {
  return text.trim().replace(/\s+/g, " ").length;
}
