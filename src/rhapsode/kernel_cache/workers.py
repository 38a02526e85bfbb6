"""Processes that compile the kernels of a deployment together, started as `python -m rhapsode.kernel_cache.workers`.

One process imports everything and forks the others, so that the imports are paid once. One of these, the planner,
builds the model on the GPU and goes through all launches; the others compile the kernels it meets, and need no GPU. The
first process must not touch CUDA: CUDA does not work in a process that was forked after it was initialised.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rhapsode.config import Deployment
from rhapsode.device.kernel_jobs import JobFolder, KernelJob
from rhapsode.engine import Engine, Source
from rhapsode.errors import ConfigError
from rhapsode.models.base import ModelSpec
from rhapsode.models.lazy import import_name
from rhapsode.models.registry import find

KERNELS = "rhapsode.nn.kernels.gpu"
SLOWEST = 5
"""How many of the slowest kernels a report names."""


@dataclass(frozen=True)
class PlanReport:
    """Where the time of the planner went, in seconds."""

    device_s: float
    """Until the GPU was ready."""
    build_s: float
    """To build the model, with random weights."""
    launch_s: float
    """To go through all launches."""
    kernels: int
    memory_gb: float
    """The most GPU memory it used."""

    def __str__(self) -> str:
        return (
            f"device {self.device_s:.1f} s, model {self.build_s:.1f} s, launches {self.launch_s:.1f} s, "
            f"{self.kernels} kernels to compile, {self.memory_gb:.1f} GB"
        )


@dataclass(frozen=True)
class WorkerReport:
    """What one process compiled, and how long that took, in seconds."""

    compile_s: float
    idle_s: float
    """Without a kernel to compile, from its start to its end."""
    kernels: int
    slowest: list[tuple[str, float]]

    def __str__(self) -> str:
        slowest = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self.slowest)
        return f"{self.kernels} kernels {self.compile_s:.1f} s (longest: {slowest or 'none'}), idle {self.idle_s:.1f} s"


def compile_in_processes(folder: Path, processes: int) -> int:
    """Forks the processes and returns how many failed. `folder` has the deployment, and gets a report of each process.

    Only the planner knows what to compile: if it fails, all count as failed.
    """
    started_s = time.perf_counter()
    gc.disable()  # these processes end soon
    given = json.loads((folder / "deployment.json").read_text("utf-8"))
    deployment = Deployment.model_validate(given["deployment"])
    checkpoint = Path(given["checkpoint"]) if given["checkpoint"] else None
    spec = find(str(checkpoint or deployment.model)).spec
    _import_all(spec)
    (folder / "imports.json").write_text(json.dumps(time.perf_counter() - started_s))
    jobs, source = JobFolder(folder / "jobs"), Source(checkpoint, given["config"])
    planner = _fork(lambda: plan(jobs, spec, deployment, source), folder / "plan.json")
    workers = [_fork(lambda: compile_jobs(jobs), folder / f"worker-{number:02d}.json") for number in range(processes)]
    is_planned = _ends_well(planner)
    jobs.close()
    failed = sum(not _ends_well(worker) for worker in workers)
    return failed if is_planned else processes


def _import_all(spec: ModelSpec) -> None:
    for name in ("triton.knobs", "rhapsode.device.compile_only", "rhapsode.engine.build", KERNELS):
        importlib.import_module(name)
    for module in pkgutil.iter_modules(sys.modules[KERNELS].__path__, f"{KERNELS}."):
        importlib.import_module(module.name)
    for stage in spec.pipeline:
        import_name(stage.factory)
    with suppress(ImportError):  # a hash of Triton's own files, part of every kernel's key: 400 MB to read
        importlib.import_module("triton.runtime.cache").triton_key()


def _fork(work: Callable[[], PlanReport | WorkerReport], report: Path) -> int:
    """Forks a process that calls `work`, writes its report and exits, also after an error. Returns its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        report.write_text(json.dumps(asdict(work())), "utf-8")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _ends_well(child: int) -> bool:
    return os.waitpid(child, 0)[1] == 0


def plan(jobs: JobFolder, spec: ModelSpec, deployment: Deployment, source: Source) -> PlanReport:
    """Goes through all launches of a deployment, and adds the kernels they need to the jobs."""
    import torch

    from rhapsode.device.compile_only import compile_only

    kernels = 0

    def gives_away(function: Any, _: Any, given: Mapping[str, Any]) -> bool:
        nonlocal kernels
        kernels += 1
        return jobs.put(KernelJob.of(function, given))

    marks_s = [time.perf_counter()]
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    marks_s.append(time.perf_counter())
    with compile_only(gives_away):
        built = Engine(spec, deployment, source)
        marks_s.append(time.perf_counter())
        for stage in built.pipeline.stages.values():
            stage.start()
        marks_s.append(time.perf_counter())
    return PlanReport(
        device_s=marks_s[1] - marks_s[0],
        build_s=marks_s[2] - marks_s[1],
        launch_s=marks_s[3] - marks_s[2],
        kernels=kernels,
        memory_gb=torch.cuda.max_memory_allocated() / 1e9,
    )


def compile_jobs(jobs: JobFolder) -> WorkerReport:
    """Compiles until no job is left. If a kernel cannot be compiled, raises its error after all others are compiled."""
    started_s = time.perf_counter()
    compiled: list[tuple[str, float]] = []
    failed: Exception | None = None
    for job in jobs.take():
        begun_s = time.perf_counter()
        try:
            job.compile()
        except Exception as error:
            failed = failed or error
        compiled.append((job.name, time.perf_counter() - begun_s))
    if failed is not None:
        raise failed
    compile_s = sum(seconds for _, seconds in compiled)
    slowest = sorted(compiled, key=lambda one: -one[1])[:SLOWEST]
    return WorkerReport(compile_s, time.perf_counter() - started_s - compile_s, len(compiled), slowest)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise ConfigError("this module is started by `rhapsode compile`.")
    try:
        sys.exit(compile_in_processes(Path(sys.argv[1]), int(sys.argv[2])))
    except Exception:
        traceback.print_exc()
        sys.exit(int(sys.argv[2]))  # none of them ran
