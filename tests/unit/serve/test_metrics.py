"""What is read at each scrape."""

import sys
from types import SimpleNamespace

import pytest

from rhapsode.serve.observe.metrics import Metrics, Readings
from rhapsode.voices.cache import CacheStats

NOW = Readings(True, 8, 2, 1, 64, 5, 0, 10, 25, 3)


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
