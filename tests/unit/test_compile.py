"""Compiling before a start: what decides whether it is needed, and what a failure of it leaves behind."""

from pathlib import Path

import pytest

from rhapsode.config import Deployment
from rhapsode.engine import Source
from rhapsode.engine.engine import Engine
from rhapsode.kernel_cache.compilation import Compilation, begin_early, compile_kernels, deciding, processes_of
from rhapsode.kernel_cache.workers import PlanReport, WorkerReport
from rhapsode.models.registry import find


def deployment(**settings: object) -> Deployment:
    return Deployment.model_validate({"model": "dummy", "compile_processes": 2, **settings})


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        ({"limits": {"real_time": False, "max_queue": 7}}, True),
        ({"server": {"port": 1}, "random_weights": True, "compile_processes": 3}, True),
        ({"limits": {"max_concurrency": 64}}, False),
        ({"chunks": {"largest": 8}}, False),
        ({"weights": "fp8"}, False),
    ],
)
def test_only_what_decides_the_launches_makes_kernels_be_compiled_again(changed: dict, is_same: bool) -> None:
    assert (deciding(deployment(**changed)) == deciding(deployment())) is is_same


def test_without_a_gpu_nothing_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    said: list[str] = []
    assert compile_kernels(find("dummy").spec, Source(), deployment(), said.append) == 0
    assert begin_early(find("dummy").spec, Source(), deployment(), print) is None
    assert not said


def test_processes_that_fail_are_counted_and_the_cache_is_not_called_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here they fail because there is no GPU: what is missing is compiled later."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    said: list[str] = []
    assert Compilation(find("dummy").spec, Source(), deployment()).wait(said.append) == 2
    assert said == ["2 of 2 compiling processes failed; the rest is compiled now."]
    assert not list(tmp_path.iterdir())


def test_the_model_is_built_before_memory_is_counted_and_waits_there() -> None:
    seen: list[bool] = []
    engine = Engine(find("dummy").spec, deployment(device="cpu"), before_memory=lambda: seen.append(True))
    assert seen == [True]
    engine.stop()


def test_a_failure_while_waiting_is_a_failure_to_load() -> None:
    def fail() -> None:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        Engine(find("dummy").spec, deployment(device="cpu"), before_memory=fail)


def test_reports_say_where_the_time_of_each_process_went() -> None:
    plan, worker = PlanReport(1.0, 2.0, 3.0, 187, 6.5), WorkerReport(12.5, 4.25, 24, [("_rows", 4.2), ("_draw", 1.3)])
    assert str(plan) == "device 1.0 s, model 2.0 s, launches 3.0 s, 187 kernels to compile, 6.5 GB"
    assert str(worker) == "24 kernels 12.5 s (longest: _rows 4.2, _draw 1.3), idle 4.2 s"


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 1), (8, 6), (16, 14), (96, 16)])
def test_by_default_two_cores_are_left_to_the_server_and_the_planner(
    cores: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)), raising=False)
    assert processes_of(Deployment()) == processes
    assert processes_of(Deployment(compile_processes=3)) == 3
