"""How many CPU threads an operation gets: as the deployment says, or the environment, or as loops share the cores."""

from collections.abc import Iterator

import pytest
import torch

from rhapsode.device import place


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.setattr(place.os, "cpu_count", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("loops", "threads"), [(1, 4), (2, 2), (8, 1)])
def test_loops_share_the_cores(loops: int, threads: int) -> None:
    place.use_threads(None, loops)
    assert torch.get_num_threads() == threads


def test_on_a_gpu_nothing_is_set() -> None:
    place.use_threads(None, None)
    assert torch.get_num_threads() == 1


def test_the_environment_goes_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    place.use_threads(None, 1)
    assert torch.get_num_threads() == 1


def test_the_deployment_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    place.use_threads(3, 1)
    assert torch.get_num_threads() == 3
