/** Decides how much must be buffered before playback starts or continues, so that it does not run dry. */

const FAST = 1.15; // seconds of speech per second from which on playback need not wait
const CAUTION = 0.9; // the rest is expected at this share of the measured pace
const UNKNOWN_S = 0.2; // needed while the pace is unknown: more than one frame, so that a pace can be measured
const WINDOW_MS = 8000;
const LEAST_MS = 250; // a pace over a shorter time says little

let lastPace = null;

export class Buffering {
  /** `expectedS` is the estimated length of the speech; `pace` what earlier speech on this page came with. */
  constructor(expectedS, pace = lastPace) {
    this.expectedS = expectedS;
    this.earlierPace = pace;
    this.arrivals = [];
    this.madeS = 0;
    this.longestGapS = 0;
    this.hasEnded = this.hasRunDry = false;
  }

  arrived(nowMs, madeS) {
    const last = this.arrivals.at(-1);
    if (last) this.longestGapS = Math.max(this.longestGapS, (nowMs - last.nowMs) / 1000);
    this.madeS = madeS;
    this.arrivals.push({ nowMs, madeS });
    while (this.arrivals.length > 2 && nowMs - this.arrivals[0].nowMs > WINDOW_MS) this.arrivals.shift();
  }

  /** Seconds of speech made per second, or null while unknown. */
  get pace() {
    const [first, last] = [this.arrivals[0], this.arrivals.at(-1)];
    const elapsedMs = this.arrivals.length > 1 ? last.nowMs - first.nowMs : 0;
    if (elapsedMs < LEAST_MS && this.earlierPace !== null) return this.earlierPace;
    return elapsedMs > 0 ? ((last.madeS - first.madeS) * 1000) / elapsedMs : null;
  }

  ranDry() {
    this.hasRunDry = true;
  }

  end() {
    this.hasEnded = true;
    lastPace = this.pace;
  }

  /** Seconds of speech that must be ahead of the listener. */
  get neededS() {
    const { pace } = this;
    if (this.hasEnded) return 0;
    if (pace === null) return UNKNOWN_S;
    const reserveS = this.hasRunDry ? Math.min(2, Math.max(UNKNOWN_S, this.longestGapS)) : 0;
    if (pace >= FAST) return reserveS;
    const restS = Math.max(1, this.expectedS - this.madeS);
    return reserveS + restS * Math.max(0, 1 / (pace * CAUTION) - 1);
  }
}
