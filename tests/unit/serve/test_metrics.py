"""What is read at each scrape."""

import sys
from types import SimpleNamespace

import pytest

from rhapsode.engine import Load
from rhapsode.serve.observe.metrics import Metrics, Readings, Totals
from rhapsode.voices.cache import CacheStats

LOAD = Load(slots=8, slots_in_use=2, queued=1, pages=64, pages_in_use=5, steps=4, frames=5)
NOW = Readings(True, LOAD, Totals(steps=6, frames=20) + Totals.of(LOAD), requests_in_flight=3)


def scrape() -> str:
    metrics = Metrics()
    metrics.watch(lambda: NOW, lambda: CacheStats(*[0] * len(CacheStats.__dataclass_fields__)))
    return metrics.text().decode()


@pytest.mark.parametrize("ready", [True, False])
def test_gpu_memory_is_told_once_there_is_a_gpu_in_use(monkeypatch: pytest.MonkeyPatch, ready: bool) -> None:
    taken = [100, 101]
    cuda = SimpleNamespace(
        is_initialized=lambda: ready, device_count=lambda: len(taken), memory_allocated=taken.__getitem__
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert ("rhapsode_device_memory_bytes 201.0" in scrape()) is ready
    assert "rhapsode_batch_size_mean 2.5" in scrape()
