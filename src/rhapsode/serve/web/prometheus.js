/** What /metrics tells, read. */

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export class Scrape {
  constructor(text) {
    this.series = new Map();
    for (const line of text.split("\n")) {
      const found = LINE.exec(line);
      if (!found) continue;
      const [, name, labels = "", value] = found;
      if (!this.series.has(name)) this.series.set(name, []);
      this.series.get(name).push({ labels: Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, text_]) => [key, text_])), value: Number(value) });
    }
  }

  /** The sum of a metric over its series, or undefined where there is none. */
  sum(name, wanted = {}) {
    const found = (this.series.get(name) ?? []).filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value));
    return found.length ? found.reduce((sum, { value }) => sum + value, 0) : undefined;
  }

  histogram(name) {
    const buckets = (this.series.get(`${name}_bucket`) ?? []).map(({ labels, value }) => ({ upTo: Number(labels.le.replace("+Inf", "Infinity")), count: value }));
    return new Histogram(buckets.sort((a, b) => a.upTo - b.upTo));
  }
}

/** Counts up to each bound, as Prometheus keeps them. */
export class Histogram {
  constructor(buckets) {
    this.buckets = buckets;
  }

  get count() {
    return this.buckets.at(-1)?.count ?? 0;
  }

  /** The value that this share lies below, drawn straight through the bucket it falls into. */
  quantile(share) {
    const rank = share * this.count;
    if (!this.count) return undefined;
    let lower = { upTo: 0, count: 0 };
    for (const bucket of this.buckets) {
      if (bucket.count >= rank && bucket.count > lower.count) {
        if (bucket.upTo === Infinity) return lower.upTo;
        return lower.upTo + ((bucket.upTo - lower.upTo) * (rank - lower.count)) / (bucket.count - lower.count);
      }
      lower = bucket;
    }
    return lower.upTo;
  }

  /** How many fell into each bucket alone. */
  heights() {
    return this.buckets.map(({ upTo, count }, i) => ({ upTo, count: count - (this.buckets[i - 1]?.count ?? 0) }));
  }
}
