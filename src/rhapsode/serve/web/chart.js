/** Small charts: a line over the last minutes, bars of a histogram. */

import { el } from "./element.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 240;
const HEIGHT = 48;
const LABEL_GAP_PX = 6;

/** One or two lines over time; the newest point is on the right. */
export class Line {
  constructor(label, points) {
    this.label = label;
    this.points = points;
    this.rows = [];
    this.root = svg(WIDTH, HEIGHT, "chart");
    this.root.setAttribute("role", "img");
    this.root.setAttribute("aria-label", label);
  }

  push(...values) {
    this.rows.push(values.map((value) => value ?? 0));
    if (this.rows.length > this.points) this.rows.shift();
    const top = Math.max(1, ...this.rows.flat()) * 1.1;
    const lines = values.map((_, which) => this.line(which, top));
    this.root.replaceChildren(...lines);
    this.root.setAttribute("aria-label", `${this.label}: ${values.join(", ")} now`);
  }

  line(which, top) {
    const step = WIDTH / (this.points - 1);
    const start = this.points - this.rows.length;
    const at = (row, i) => `${((start + i) * step).toFixed(1)},${(HEIGHT - 2 - (row[which] / top) * (HEIGHT - 4)).toFixed(1)}`;
    const shape = document.createElementNS(SPACE, "polyline");
    shape.setAttribute("points", this.rows.map(at).join(" "));
    shape.setAttribute("class", `line line-${which}`);
    return shape;
  }
}

/** A histogram: a bar for each bucket, and the bounds of so many buckets as there is room for. */
export class Bars {
  constructor(label, write) {
    this.label = label;
    this.write = write;
    this.root = el("div", { class: "bars", role: "img", "aria-label": label });
    new ResizeObserver(() => this.thin()).observe(this.root);
  }

  show(heights) {
    const top = Math.max(1, ...heights.map(({ count }) => count));
    this.root.replaceChildren(
      ...heights.map(({ upTo, count }) => {
        const bar = el("i", {});
        bar.style.height = `${count ? Math.max(4, (count / top) * 100) : 0}%`;
        const bound = upTo === Infinity ? "more" : this.write(upTo);
        return el("span", { title: `up to ${bound}: ${count}` }, bar, el("b", {}, el("span", {}, bound)));
      }),
    );
    this.thin();
  }

  /** Hides bounds that would not fit between their neighbours. */
  thin() {
    const labels = [...this.root.querySelectorAll("b > span")];
    const widest = Math.max(...labels.map((label) => label.offsetWidth)) + LABEL_GAP_PX;
    const every = Math.ceil(widest / (this.root.clientWidth / labels.length));
    labels.forEach((label, i) => label.classList.toggle("unlabelled", i % every !== 0));
  }
}

function svg(width, height, className) {
  const root = document.createElementNS(SPACE, "svg");
  root.setAttribute("viewBox", `0 0 ${width} ${height}`);
  root.setAttribute("preserveAspectRatio", "none");
  root.setAttribute("class", className);
  return root;
}
