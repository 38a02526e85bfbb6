/** Server: what it is doing now, from its own metrics; and the request of this page as code. */

import { metrics } from "../api.js";
import { Bars, Line } from "../chart.js";
import { CodePanel } from "../code.js";
import { el } from "../element.js";
import { Figures, factor, ms } from "../figures.js";
import { Scrape } from "../prometheus.js";

const EVERY_MS = 1000;
const POINTS = 120;
const SPREADS = {
  first_audio_seconds: ["First audio", (s) => ms(s * 1000)],
  real_time_factor: ["Real-time factor", factor],
  queued_seconds: ["Waiting for a slot", (s) => ms(s * 1000)],
  chunk_gap_seconds: ["Between two chunks", (s) => ms(s * 1000)],
};
const bytes = (value) => (value < 2 ** 30 ? `${Math.round(value / 2 ** 20)} MiB` : `${(value / 2 ** 30).toFixed(2)} GiB`);

export class ServerView {
  /** `request` is what the page would send now. */
  constructor(request) {
    this.before = null;
    this.now = new Figures(
      {
        running: ["Running", String, "Requests that hold a slot"],
        queued: ["Queued", String, "Requests that wait for one"],
        slots: ["Slots", String, "Requests that can be spoken at once"],
        batch: ["Batch size", (mean) => mean.toFixed(1), "Frames a launch of the talker makes; of late, or since the start"],
        sockets: ["WebSockets", String, "Open now"],
        memory: ["Memory", bytes, "Of the process"],
        device: ["GPU memory", bytes, "Of tensors on the GPUs"],
        spoken: ["Spoken", (s) => (s < 600 ? `${s.toFixed(0)} s` : `${(s / 60).toFixed(0)} min`), "Since the start"],
        failed: ["Failed or refused", String, "Requests, since the start"],
      },
      "The server now",
    );
    this.load = new Line("Running and queued requests", POINTS);
    this.memory = new Line("Memory in MiB", POINTS);
    this.spreads = Object.entries(SPREADS).map(([name, [title, write]]) => new Spread(name, title, write));
    this.error = el("p", { class: "error", role: "alert" });
    this.code = new CodePanel(request);
    this.root = el(
      "div",
      { class: "stack" },
      el(
        "section",
        { class: "card", "aria-label": "Now" },
        el("h2", {}, "Now"),
        this.error,
        this.now.root,
        el("div", { class: "halves charts" },
          el("figure", {}, this.load.root, el("figcaption", { class: "hint" }, "Running, queued: two minutes")),
          el("figure", {}, this.memory.root, el("figcaption", { class: "hint" }, "Memory: two minutes"))),
      ),
      el("section", { class: "card", "aria-label": "Since the start" }, el("h2", {}, "Since the start"),
        el("div", { class: "spreads" }, this.spreads.map(({ root }) => root))),
      el("section", { class: "card", "aria-label": "Code" }, el("h2", {}, "What Speak would send, as code"), this.code.root),
    );
  }

  enter() {
    this.code.update();
    this.watching = true;
    this.watch();
  }

  leave() {
    this.watching = false;
    clearTimeout(this.timer);
  }

  async watch() {
    clearTimeout(this.timer);
    try {
      this.draw(new Scrape(await metrics()));
      this.error.textContent = "";
    } catch (error) {
      this.error.textContent = error.message;
    }
    if (this.watching) this.timer = setTimeout(() => this.watch(), EVERY_MS);
  }

  draw(scrape) {
    const read = (name, labels) => scrape.sum(`rhapsode_${name}`, labels);
    const running = read("slots_in_use");
    const queued = read("queue_depth");
    const memory = scrape.sum("process_resident_memory_bytes");
    const bad = ["failed", "timeout", "refused"].map((outcome) => read("requests_total", { outcome }) ?? 0);
    this.now.show({
      running,
      queued,
      memory,
      slots: read("slots"),
      batch: this.batch(read("talker_frames_total"), read("talker_steps_total")) ?? (read("batch_size_mean") || undefined),
      sockets: read("open_websockets"),
      device: read("device_memory_bytes"),
      spoken: read("audio_seconds_total"),
      failed: bad.reduce((sum, count) => sum + count),
    });
    this.now.cells.device.parentElement.hidden = read("device_memory_bytes") === undefined;
    this.load.push(running, queued);
    this.memory.push(Math.round((memory ?? 0) / 2 ** 20));
    this.spreads.forEach((spread) => spread.show(scrape.histogram(`rhapsode_${spread.name}`)));
  }

  /** Of the steps since the last look, where there were any. */
  batch(frames, steps) {
    const { frames: framesBefore, steps: stepsBefore } = this.before ?? { frames, steps };
    this.before = { frames, steps };
    return steps > stepsBefore ? (frames - framesBefore) / (steps - stepsBefore) : undefined;
  }
}

/** One histogram: its percentiles and its bars. */
class Spread {
  constructor(name, title, write) {
    this.name = name;
    this.title = title;
    const shares = { p50: 0.5, p90: 0.9, p99: 0.99 };
    this.shares = shares;
    this.figures = new Figures(Object.fromEntries(Object.keys(shares).map((p) => [p, [p, write, `${p} of ${title.toLowerCase()}`]])), title);
    this.bars = new Bars(title, write);
    this.root = el("figure", {}, el("figcaption", {}, title), this.figures.root, this.bars.root);
  }

  show(histogram) {
    this.figures.show(Object.fromEntries(Object.entries(this.shares).map(([p, share]) => [p, histogram.quantile(share)])));
    this.bars.show(histogram.heights());
  }
}
