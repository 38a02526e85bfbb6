"""Prometheus metrics, in a registry of their own, so that two servers in one process do not mix."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rhapsode.engine import Load
from rhapsode.errors import Busy, RhapsodeError
from rhapsode.types import Outcome
from rhapsode.voices.cache import CacheStats

LATENCY_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
GAP_S = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
NO_CACHE = CacheStats(0, 0, 0, 0)
FACTOR = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1, 2, 5, 10)


@dataclass(frozen=True)
class Totals:
    """Counters of the engine, which add up when the model is unloaded and loaded again."""

    steps: int = 0
    frames: int = 0
    pages_shared: int = 0
    encoded_hits: int = 0
    encoded_misses: int = 0

    @classmethod
    def of(cls, load: Load) -> Totals:
        encoded = load.references
        return cls(load.steps, load.frames, load.pages_shared, encoded.hits, encoded.misses)

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Readings:
    """The state of the engine at the time of a scrape."""

    loaded: bool
    load: Load
    totals: Totals
    requests_in_flight: int


ENDS = {"timeout": "timeout", "not_read": "unread"}
"""How a request ended that the server itself has ended, by the code of its error."""
METHODS = ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH")


class Metrics:
    """Counters that the server increments, and readings taken from the engine at each scrape."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._answers: dict[tuple[str, str, int], Counter] = {}
        ProcessCollector(registry=registry)
        self.requests = Counter("rhapsode_requests", "Requests by how they ended", ["outcome"], registry=registry)
        self.responses = Counter(
            "rhapsode_http_responses", "HTTP responses", ["method", "route", "status"], registry=registry
        )
        self.first_audio = Histogram(
            "rhapsode_first_audio_seconds", "From submission to the first chunk", buckets=LATENCY_S, registry=registry
        )
        self.queued = Histogram(
            "rhapsode_queued_seconds", "From submission to admission", buckets=(0.0, *LATENCY_S), registry=registry
        )
        self.factor = Histogram(
            "rhapsode_real_time_factor", "Time taken over time spoken", buckets=FACTOR, registry=registry
        )
        self.gaps = Histogram(
            "rhapsode_chunk_gap_seconds", "Between two chunks of one stream", buckets=GAP_S, registry=registry
        )
        self.underruns = Counter("rhapsode_underruns", "Underruns of listeners", registry=registry)
        self.frames = Counter("rhapsode_frames", "Frames of requests that have ended", registry=registry)
        self.audio = Counter("rhapsode_audio_seconds", "Speech made", registry=registry)
        self.loads = Counter("rhapsode_model_loads", "Times the model was loaded", registry=registry)
        self.sockets = Gauge("rhapsode_open_websockets", "WebSockets open now", registry=registry)
        self.wyoming = Gauge("rhapsode_open_wyoming_connections", "Wyoming connections open now", registry=registry)
        self._slow_callbacks = Counter(
            "rhapsode_slow_callbacks", "Callbacks that kept the event loop busy (debug)", ["origin"], registry=registry
        )
        self._longest_callbacks = Gauge(
            "rhapsode_longest_callback_cpu_seconds", "The longest of them (debug)", ["origin"], registry=registry
        )
        for outcome in ("stop", "length", "aborted", "failed", "refused", *ENDS.values()):
            self.requests.labels(outcome)  # a series that exists from the start can be compared with zero

    def watch(
        self,
        readings: Callable[[], Readings],
        cache: Callable[[], CacheStats],
        phrases: Callable[[], CacheStats] = lambda: NO_CACHE,
    ) -> None:
        self.registry.register(_Live(readings, cache, phrases))

    def ended(self, outcome: Outcome, reason: RhapsodeError | None) -> None:
        """Counts a request that has ended; called from any thread."""
        how = str(outcome.finish_reason)
        if reason is not None:
            how = ENDS.get(reason.code, "failed")
        elif isinstance(outcome.error, Busy):  # it had a place in the queue
            how = "refused"
        self.requests.labels(how).inc()
        self.queued.observe(outcome.queued_s)
        self.underruns.inc(outcome.underruns)
        self.frames.inc(outcome.frames)
        self.audio.inc(outcome.audio_s)
        if outcome.first_audio_s is not None:
            self.first_audio.observe(outcome.first_audio_s)
        if outcome.audio_s and outcome.error is None:
            self.factor.observe((outcome.total_s - outcome.queued_s) / outcome.audio_s)

    def slow_callback(self, origin: str, cpu_s: float) -> None:
        """Counts a callback that blocked the event loop. Origins are names in the code, so their number is bounded."""
        self._slow_callbacks.labels(origin).inc()
        longest = self._longest_callbacks.labels(origin)
        longest.set(max(longest._value.get(), cpu_s))

    def refused(self) -> None:
        self.requests.labels("refused").inc()

    def answered(self, route: str, method: str, status: int) -> None:
        series = self._answers.get((route, method, status))
        if series is None:
            known = method if method in METHODS else "other"
            series = self.responses.labels(known, route, str(status or "none"))
            if known == method:  # clients may invent any number of other methods
                self._answers[route, method, status] = series
        series.inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Refusals:
    """A context manager that counts the errors which refuse a request. A plain class, since each request enters several
    and a generator would cost more."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, RhapsodeError):
            self._metrics.refused()


class _Live(Collector):
    def __init__(
        self,
        readings: Callable[[], Readings],
        cache: Callable[[], CacheStats],
        phrases: Callable[[], CacheStats],
    ) -> None:
        self._readings = readings
        self._cache = cache
        self._phrases = phrases

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        now, cache, phrases = self._readings(), self._cache(), self._phrases()
        load, totals = now.load, now.totals
        batch = totals.frames / totals.steps if totals.steps else 0.0
        gauges = {
            "model_loaded": ("Whether the model is in memory", float(now.loaded)),
            "slots": ("Requests that can be spoken at once", load.slots),
            "slots_in_use": ("Requests being spoken", load.slots_in_use),
            "real_time_listeners": ("Listeners that the measured pace allows", load.places),
            "queue_depth": ("Requests waiting for their turn", load.queued),
            "pages": ("KV pages", load.pages),
            "pages_in_use": ("KV pages taken", load.pages_in_use),
            "requests_in_flight": ("Requests the server is busy with", now.requests_in_flight),
            "batch_size_mean": ("Frames a launch of the talker makes", batch),
            "reference_cache_bytes": ("References kept", cache.bytes),
            "encoded_cache_bytes": ("Encoded references kept", load.references.bytes),
            "phrase_cache_bytes": ("Finished speech kept", phrases.bytes),
            "tasks": ("Tasks of the event loop", _tasks()),
        }
        if load.device_bytes is not None:
            gauges["device_memory_bytes"] = ("Tensors in the memory of the GPUs", load.device_bytes)
        for name, (what, value) in gauges.items():
            yield GaugeMetricFamily(f"rhapsode_{name}", what, value=value)
        counters = {
            "talker_steps": ("Launches of the talker", totals.steps),
            "talker_frames": ("Frames those launches made", totals.frames),
            "pages_shared": ("Pages that were found instead of computed", totals.pages_shared),
            "reference_cache_hits": ("References found", cache.hits),
            "reference_cache_misses": ("References decoded", cache.misses),
            "phrase_cache_hits": ("Requests answered with speech that was kept", phrases.hits),
            "phrase_cache_misses": ("Requests looked up and spoken", phrases.misses),
            "encoded_cache_hits": ("Encoded references found", totals.encoded_hits),
            "encoded_cache_misses": ("References encoded", totals.encoded_misses),
        }
        for name, (what, value) in counters.items():
            yield CounterMetricFamily(f"rhapsode_{name}", what, value=value)
        slow = CounterMetricFamily("rhapsode_slow_turns", "Turns of the device loop over 50 ms", labels=["stage"])
        for stage, count in load.slow_turns.items():
            slow.add_metric([stage], count)
        yield slow
        longest = GaugeMetricFamily(
            "rhapsode_longest_turn_seconds", "Longest turn of the device loop", labels=["stage"]
        )
        for stage, longest_s in load.longest_turns_s.items():
            longest.add_metric([stage], longest_s)
        yield longest


def _tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # read from outside the event loop
        return 0
