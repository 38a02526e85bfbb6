/** Shows measured values, each with a name, in few digits. */

import { el } from "./element.js";

export class Figures {
  /** `shapes`: name -> [label, how to write the value, what it means]. */
  constructor(shapes, label) {
    this.shapes = shapes;
    this.cells = {};
    this.root = el(
      "dl",
      { class: "figures", "aria-label": label },
      Object.entries(shapes).map(([name, [title, , meaning]]) => {
        this.cells[name] = el("dd", { "data-figure": name }, "–");
        return el("div", { title: meaning }, el("dt", {}, title), this.cells[name]);
      }),
    );
  }

  show(values) {
    for (const [name, [, write]] of Object.entries(this.shapes)) {
      const value = values[name];
      this.cells[name].textContent = value === null || value === undefined ? "–" : write(value, values);
    }
  }
}

export const ms = (value) => (value < 1000 ? `${value < 1 ? Number(value.toPrecision(1)) : Math.round(value)} ms` : `${Number((value / 1000).toFixed(2))} s`);
export const clock = (value) => `${Math.floor(Math.round(value) / 60)}:${String(Math.round(value) % 60).padStart(2, "0")}`;
export const factor = (value) => String(Number(value.toPrecision(2)));
export const seconds = (value) => `${value.toFixed(1)} s`;

/** What the browser measures of one utterance. */
export function speechFigures() {
  return new Figures(
    {
      firstAudioMs: ["First audio", ms, "From the click to the first sample that is played"],
      factor: ["Real-time factor", factor, "Time until the last byte over time spoken; below 1 it keeps up"],
      longestGapMs: ["Longest gap", ms, "Between two pieces of the stream"],
      underruns: [
        "Underruns",
        (count, { silentMs }) => (count ? `${count} · ${ms(silentMs)}` : "0"),
        "Times the loudspeaker ran dry before the end, and how long it was silent in all",
      ],
    },
    "Measured in this browser",
  );
}
