"""The metrics that a server, an edge of a cluster and a server of several models expose, as Prometheus reads them."""

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from rhapsode.config.pool import pooled
from rhapsode.edge.fleet import Fleet
from rhapsode.engine import Load
from rhapsode.pool.metrics import PoolMetrics
from rhapsode.pool.model_pool import ModelPool
from rhapsode.serve.observe.metrics import NO_CACHE, Metrics, Readings, Totals


@dataclass(frozen=True)
class MetricKind:
    """One family of series: its name as it is queried, `counter`, `gauge` or `histogram`, and what it counts."""

    name: str
    type: str
    about: str


def pages() -> tuple[str, str]:
    """Returns what a server with a GPU, and the edge of a server of several models, answer to a scrape."""
    metrics, load = Metrics(), Load(slots=1, device_bytes=0)
    metrics.watch(lambda: Readings(True, load, Totals(), 0), lambda: NO_CACHE)
    pool = ModelPool(pooled({"models": {"one": None}}))
    return metrics.text().decode(), PoolMetrics(pool).text(Fleet({}), 0)


def metric_list() -> dict[str, MetricKind]:
    """Returns all metrics by name. A counter's name ends with `_total`; the time when a counter was made is none."""
    found = {}
    for page in pages():
        for family in text_string_to_metric_families(page):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            if not name.endswith("_created"):
                found[name] = MetricKind(name, family.type, family.documentation)
    return found


def series(kind: MetricKind) -> tuple[str, ...]:
    """Returns the names under which a metric can be queried."""
    ends = ("_bucket", "_sum", "_count") if kind.type == "histogram" else ("",)
    return tuple(f"{kind.name}{end}" for end in ends)
