"""Kernels are written as jobs by one process and compiled by others, each once."""

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rhapsode.device.compile_only import compile_only
from rhapsode.device.kernel_jobs import JobFolder, KernelJob
from rhapsode.kernel_cache.workers import compile_jobs

JOB = KernelJob("some.module", "_kernel", {"x": "*bf16"}, {(1,): (4, None)}, {(0,): [["a", 16]]}, {}, ("cuda", 90, 32))


def names(count: int) -> list[str]:
    return [f"_kernel{number}" for number in range(count)]


def test_jobs_are_taken_in_order_and_as_they_were_written(tmp_path: Path) -> None:
    jobs = JobFolder(tmp_path / "jobs")
    for name in names(3):
        assert jobs.put(replace(JOB, name=name))
    jobs.close()
    assert list(JobFolder(tmp_path / "jobs").take()) == [replace(JOB, name=name) for name in names(3)]


def test_a_kernel_with_an_argument_that_only_this_process_knows_is_not_given_away(tmp_path: Path) -> None:
    jobs = JobFolder(tmp_path)
    assert not jobs.put(replace(JOB, constants={(1,): lambda: None}))
    jobs.close()
    assert not list(jobs.take())


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_processes_share_jobs_that_come_while_they_wait(tmp_path: Path) -> None:
    jobs, children = JobFolder(tmp_path / "jobs"), []
    for number in range(3):
        child = os.fork()
        if not child:
            mine = [job.name for job in jobs.take()]
            (tmp_path / str(number)).write_text("\n".join(mine))
            os._exit(0)
        children.append(child)
    for name in names(30):
        jobs.put(replace(JOB, name=name))
        time.sleep(0.002)
    jobs.close()
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    taken = [name for number in range(3) for name in (tmp_path / str(number)).read_text().split()]
    assert sorted(taken) == sorted(names(30))


def test_nobody_waits_for_a_folder_that_is_gone(tmp_path: Path) -> None:
    jobs = JobFolder(tmp_path / "jobs")
    shutil.rmtree(tmp_path / "jobs")
    assert not list(jobs.take())


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_process_whose_parent_has_ended_ends_too(tmp_path: Path) -> None:
    jobs = JobFolder(tmp_path / "jobs")
    parent = os.fork()
    if not parent:
        if not os.fork():
            (tmp_path / "begun").touch()
            list(jobs.take())  # nobody ever closes it
            (tmp_path / "ended").touch()
            os._exit(0)
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        time.sleep(0.05)
        os._exit(0)
    os.waitpid(parent, 0)
    by_s = time.monotonic() + 10
    while not (tmp_path / "ended").exists() and time.monotonic() < by_s:
        time.sleep(0.01)
    assert (tmp_path / "ended").exists()


def test_a_kernel_that_cannot_be_compiled_fails_after_all_others_were_tried(tmp_path: Path) -> None:
    jobs = JobFolder(tmp_path)
    for name in names(2):
        jobs.put(replace(JOB, module="rhapsode.no_such_module", name=name))
    jobs.close()
    with pytest.raises(ImportError):
        compile_jobs(jobs)
    assert len(list((tmp_path / "taken").iterdir())) == 2


class _NoGpu:
    """Stands for Triton's driver where there is no GPU: kernels can be compiled, not launched."""

    def __init__(self, target: object) -> None:
        self._target = target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> object:
        return self._target


def test_triton_finds_what_other_processes_have_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton")
    torch = pytest.importorskip("torch")
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    from rhapsode.nn.kernels.gpu import norm

    if not isinstance(norm._rms_norm, triton.runtime.jit.JITFunction):
        pytest.skip("kernels are interpreted here")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(driver, "_active", _NoGpu(GPUTarget("cuda", 90, 32)))
    jobs = JobFolder(tmp_path / "jobs")
    x, weight = torch.zeros(3, 64, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.bfloat16)
    seen: list[bool] = []

    def launch() -> None:
        norm._rms_norm.device_caches.clear()
        for eps in (1e-6, 1e-5):
            norm.rms_norm(x, weight, eps)
        norm.rms_norm(x.float(), weight, 1e-6)

    with compile_only(lambda function, _, given: jobs.put(KernelJob.of(function, given))) as here:
        launch()
    jobs.close()
    assert not here
    assert compile_jobs(jobs).kernels == 2
    monkeypatch.setattr(knobs.compilation, "listener", lambda *, cache_hit, **_: seen.append(cache_hit))
    with compile_only(lambda *_: False) as here:
        launch()
    norm._rms_norm.device_caches.clear()
    assert [name for name, _ in here] == ["_rms_norm", "_rms_norm"]
    assert seen == [True, True]
