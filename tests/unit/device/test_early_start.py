"""What is started beside the imports must never do harm: without a GPU, or for the CPU, nothing is started."""

import sys
import types

import pytest

from rhapsode.device import early_start


@pytest.mark.parametrize("device", ["cpu", "auto", "cuda:1"])
def test_cuda_is_not_started_where_no_gpu_may_be_used(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert early_start.start_cuda(device) is None


def test_the_cpu_needs_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_start, "has_gpu", lambda: True)
    assert early_start.start_cuda("cpu") is None


def test_a_driver_that_is_missing_is_left_for_torch_to_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_start, "has_gpu", lambda: True)
    monkeypatch.setattr(early_start, "CUDA", "libno-such-driver.so.1")
    thread = early_start.start_cuda("cuda:0")
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()


def test_without_triton_there_is_nothing_to_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setitem(sys.modules, "triton.runtime.cache", None)
    assert early_start.start_triton() is None


def test_another_version_of_triton_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("triton", "triton.runtime", "triton.runtime.cache", "triton.compiler", "triton.compiler.compiler"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert early_start.start_triton() is None
