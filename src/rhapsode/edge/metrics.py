"""Metrics of an edge: its responses, the replicas it knows, and the requests that wait for a replica."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from rhapsode.edge.fleet import Fleet


class EdgeMetrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._responses = Counter(
            "rhapsode_edge_responses", "HTTP responses of the edge", ["method", "route", "status"], registry=registry
        )
        self._replicas = Gauge("rhapsode_edge_replicas", "Replicas that can be asked", ["model"], registry=registry)
        self._waiting = Gauge(
            "rhapsode_edge_waiting", "Requests that wait for the first replica", ["model"], registry=registry
        )
        self._in_flight = Gauge("rhapsode_edge_in_flight", "Speech requests of this edge", registry=registry)

    def answered(self, route: str, method: str, status: int) -> None:
        self._responses.labels(method if method in ("GET", "POST", "DELETE") else "other", route, str(status)).inc()

    def text(self, fleet: Fleet, in_flight: int) -> str:
        for name, model in fleet.models.items():
            self._replicas.labels(name).set(len(model.replicas))
            self._waiting.labels(name).set(model.waiting)
        self._in_flight.set(in_flight)
        return generate_latest(self.registry).decode()
