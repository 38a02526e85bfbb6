"""What is read at each scrape."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rhapsode.device.gpu_memory import device_bytes
from rhapsode.engine import Load
from rhapsode.serve.observe.metrics import Metrics, Readings, Totals
from rhapsode.voices.cache import CacheStats

LOAD = Load(slots=8, slots_in_use=2, queued=1, pages=64, pages_in_use=5, steps=4, frames=5)


def scrape(load: Load) -> str:
    metrics = Metrics()
    now = Readings(True, load, Totals(steps=6, frames=20) + Totals.of(load), requests_in_flight=3)
    metrics.watch(lambda: now, lambda: CacheStats(*[0] * len(CacheStats.__dataclass_fields__)))
    return metrics.text().decode()


@pytest.mark.parametrize("ready", [True, False])
def test_gpu_memory_is_counted_once_there_is_a_gpu_in_use(monkeypatch: pytest.MonkeyPatch, ready: bool) -> None:
    taken = [100, 101]
    cuda = SimpleNamespace(
        is_initialized=lambda: ready, device_count=lambda: len(taken), memory_allocated=taken.__getitem__
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert device_bytes() == (201 if ready else None)


@pytest.mark.parametrize("taken", [201, None])
def test_what_the_engine_holds_is_told(taken: int | None) -> None:
    told = scrape(replace(LOAD, device_bytes=taken))
    assert ("rhapsode_device_memory_bytes 201.0" in told) is (taken is not None)
    assert "rhapsode_batch_size_mean 2.5" in told
