"""Metrics of several replicas on one page."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rhapsode.edge.exposition import join


def page(count: int) -> str:
    registry = CollectorRegistry()
    requests = Counter("requests", "Requests", ["outcome"], registry=registry)
    requests.labels("a { b } c").inc(count)
    Counter("steps", "Steps", registry=registry).inc(count)
    Histogram("wait_seconds", "Waiting", buckets=(1.0,), registry=registry).observe(count)
    return generate_latest(registry).decode()


def test_samples_keep_their_values_and_say_whose_they_are() -> None:
    joined = join([({"model": 'a"b', "replica": "one"}, page(1)), ({"model": 'a"b', "replica": "two"}, page(2))])
    families = {family.name: family for family in text_string_to_metric_families(joined)}
    found = {
        (sample.name, sample.labels["replica"]): sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name in ("requests_total", "steps_total", "wait_seconds_sum")
    }
    for name in ("requests_total", "steps_total", "wait_seconds_sum"):
        assert (found[name, "one"], found[name, "two"]) == (1, 2)
    labels = families["requests"].samples[0].labels
    assert (labels["model"], labels["outcome"]) == ('a"b', "a { b } c")


def test_a_metric_is_described_once() -> None:
    joined = join([({"replica": "one"}, page(1)), ({"replica": "two"}, page(2))])
    assert joined.count("# TYPE requests_total counter") == 1


def test_metrics_without_labels_stay_as_they_are() -> None:
    own = page(3)
    assert join([({}, own)]) == own
