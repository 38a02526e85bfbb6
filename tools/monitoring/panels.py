"""What the dashboard shows: rows of panels, and the queries of each. A metric without a panel gets one of its own."""

import re
from dataclasses import dataclass

from tools.monitoring.metric_list import MetricKind, series

CHOSEN = 'job=~"$job",instance=~"$instance"'
"""What the two variables at the top of the dashboard select."""
QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class Panel:
    """A graph: queries with the names of their lines."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    about: str = ""
    stacked: bool = False


def rate(metric: str, by: str = "") -> str:
    return f"sum {f'by ({by}) ' if by else ''}(rate({metric}{{{CHOSEN}}}[$__rate_interval]))"


def total(metric: str, by: str = "") -> str:
    return f"sum {f'by ({by}) ' if by else ''}({metric}{{{CHOSEN}}})"


def quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    buckets = rate(f"{metric}_bucket", "le")
    return tuple((f"histogram_quantile({q}, {buckets})", f"p{q * 100:g}") for q in QUANTILES)


def hit_rate(cache: str) -> tuple[str, str]:
    hits, misses = (rate(f"rhapsode_{cache}_cache_{what}_total") for what in ("hits", "misses"))
    return f"{hits} / ({hits} + {misses})", cache


CACHES = ("reference", "encoded", "phrase")
ROWS: dict[str, tuple[Panel, ...]] = {
    "What listeners notice": (
        Panel("First audio", quantiles("rhapsode_first_audio_seconds"), "s", "From submission to the first chunk."),
        Panel("Wait for a place", quantiles("rhapsode_queued_seconds"), "s", "From submission to admission."),
        Panel(
            "Underruns per request",
            ((f"{rate('rhapsode_underruns_total')} / {rate('rhapsode_requests_total')}", "underruns"),),
            about="How often playback would have run out of audio.",
        ),
        Panel("Between two chunks", quantiles("rhapsode_chunk_gap_seconds"), "s"),
        Panel(
            "Requests by how they ended",
            ((rate("rhapsode_requests_total", "outcome"), "{{outcome}}"),),
            "reqps",
            stacked=True,
        ),
        Panel(
            "HTTP responses", ((rate("rhapsode_http_responses_total", "status"), "{{status}}"),), "reqps", stacked=True
        ),
    ),
    "How full it is": (
        Panel(
            "Listeners and places",
            (
                (total("rhapsode_slots_in_use"), "spoken"),
                (total("rhapsode_queue_depth"), "waiting"),
                (total("rhapsode_real_time_listeners"), "places in real time"),
                (total("rhapsode_slots"), "slots"),
            ),
            about="Places are what the measured pace allows; slots are what memory allows.",
        ),
        Panel("Speech made per second", ((rate("rhapsode_audio_seconds_total"), "seconds of audio"),), "x"),
        Panel("Time taken over time spoken", quantiles("rhapsode_real_time_factor"), "x"),
        Panel("KV pages", ((total("rhapsode_pages_in_use"), "taken"), (total("rhapsode_pages"), "all"))),
        Panel("Hit rates of caches", tuple(map(hit_rate, CACHES)), "percentunit"),
        Panel("Caches", tuple((total(f"rhapsode_{cache}_cache_bytes"), cache) for cache in CACHES), "bytes"),
    ),
    "The machine": (
        Panel("CPU", ((rate("process_cpu_seconds_total", "instance"), "{{instance}}"),), "short", "Cores in use."),
        Panel("Memory", ((total("process_resident_memory_bytes", "instance"), "{{instance}}"),), "bytes"),
        Panel("GPU memory", ((total("rhapsode_device_memory_bytes", "instance"), "{{instance}}"),), "bytes"),
        Panel("Slow turns", ((rate("rhapsode_slow_turns_total", "stage"), "{{stage}}"),), "cps"),
        Panel("Longest turn", ((f"max by (stage) (rhapsode_longest_turn_seconds{{{CHOSEN}}})", "{{stage}}"),), "s"),
        Panel(
            "Open files",
            ((total("process_open_fds", "instance"), "{{instance}}"), (total("process_max_fds", "instance"), "limit")),
        ),
    ),
    "The edge of a cluster, or of several models": (
        Panel("Replicas", ((total("rhapsode_edge_replicas", "model"), "{{model}}"),)),
        Panel("Wait for the first replica", ((total("rhapsode_edge_waiting", "model"), "{{model}}"),)),
        Panel("Responses", ((rate("rhapsode_edge_responses_total", "status"), "{{status}}"),), "reqps", stacked=True),
    ),
    "Several models in one server": (
        Panel("Loaded models", ((total("rhapsode_pool_loaded", "model"), "{{model}}"),), stacked=True),
        Panel(
            "Memory of models", ((total("rhapsode_pool_memory_bytes", "model"), "{{model}}"),), "bytes", stacked=True
        ),
        Panel("Last load", ((f"max by (model) (rhapsode_pool_load_seconds{{{CHOSEN}}})", "{{model}}"),), "s"),
        Panel("Loads", ((rate("rhapsode_pool_loads_total", "model"), "{{model}}"),), "cps"),
        Panel(
            "Unloads",
            ((rate("rhapsode_pool_unloads_total", "model, why"), "{{model}}: {{why}}"),),
            "cps",
            "For room: another model needed the memory. Idle: nobody used it.",
        ),
    ),
}
UNITS = {"seconds": "s", "bytes": "bytes"}


def usual(kind: MetricKind) -> Panel:
    """Returns the panel of a metric that no row above has."""
    title = kind.about.rstrip(".") or kind.name
    if kind.type == "histogram":
        return Panel(title, quantiles(kind.name), UNITS.get(kind.name.rsplit("_", 1)[-1], "short"), kind.name)
    if kind.type == "counter":
        return Panel(title, ((rate(kind.name, "instance"), "{{instance}}"),), "cps", kind.name)
    unit = UNITS.get(kind.name.rsplit("_", 1)[-1], "short")
    return Panel(title, ((total(kind.name, "instance"), "{{instance}}"),), unit, kind.name)


def names_in(expression: str) -> set[str]:
    """Returns the series that an expression asks for."""
    return set(re.findall(r"\b(?:rhapsode|process)_\w+", expression))


def rows(metrics: dict[str, MetricKind]) -> dict[str, tuple[Panel, ...]]:
    """Returns all rows: those above, and one with the metrics that these leave out."""
    shown = {
        name for panels in ROWS.values() for panel in panels for query, _ in panel.queries for name in names_in(query)
    }
    left = [kind for kind in metrics.values() if not shown & set(series(kind))]
    return {**ROWS, "Everything else": tuple(usual(kind) for kind in left)}
