"""Metrics of a server with several models: those of its edge, and which models are loaded how often."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rhapsode.edge.metrics import EdgeMetrics
from rhapsode.pool.model_pool import ModelPool


class PoolMetrics(EdgeMetrics):
    def __init__(self, pool: ModelPool) -> None:
        super().__init__()
        self.registry.register(_Members(pool))


class _Members(Collector):
    def __init__(self, pool: ModelPool) -> None:
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        loaded = GaugeMetricFamily("rhapsode_pool_loaded", "Whether the model is loaded", labels=["model"])
        memory = GaugeMetricFamily("rhapsode_pool_memory_bytes", "Memory of a model's process", labels=["model"])
        seconds = GaugeMetricFamily("rhapsode_pool_load_seconds", "How long loading took last", labels=["model"])
        loads = CounterMetricFamily("rhapsode_pool_loads", "How often a model was loaded", labels=["model"])
        unloads = CounterMetricFamily("rhapsode_pool_unloads", "How often, and why", labels=["model", "why"])
        for name, member in self._pool.members.items():
            loaded.add_metric([name], float(member.report is not None))
            memory.add_metric([name], member.memory_bytes if member.report is not None else 0)
            seconds.add_metric([name], member.load_s or 0.0)
            loads.add_metric([name], member.loads)
            for why, count in member.unloads.items():
                unloads.add_metric([name, why], count)
        yield from (loaded, memory, seconds, loads, unloads)
