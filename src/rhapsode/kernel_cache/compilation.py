"""Fills the kernel cache before the first start: several processes compile what a deployment launches."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rhapsode.config import Deployment
from rhapsode.device.early_start import has_gpu
from rhapsode.engine import Source
from rhapsode.models.base import ModelSpec

PAGES = 64
"""KV pages of a compiling process: how many there are changes no kernel."""
MOST_PROCESSES = 16
"""This many processes compile 190 kernels in about ten seconds. More gain little: the slowest kernels take as long."""
STAMP = "rhapsode-"
Say = Callable[[str], None]


class Compilation:
    """Processes that compile kernels, at the same time as the other steps of a start."""

    def __init__(self, spec: ModelSpec, source: Source, deployment: Deployment) -> None:
        self._made_of = (spec, source, deployment)
        self._begun_s = time.perf_counter()
        self._processes = processes_of(deployment)
        self._folder = tempfile.TemporaryDirectory(prefix="rhapsode-compile-", ignore_cleanup_errors=True)
        given = json.dumps(_lean(deployment, source), default=str)
        (Path(self._folder.name) / "deployment.json").write_text(given, "utf-8")
        command = [sys.executable, "-m", "rhapsode.kernel_cache.workers", self._folder.name, str(self._processes)]
        # Whether there is a GPU is asked without CUDA, which must not start before the fork.
        self._running = subprocess.Popen(command, env={**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"})

    def wait(self, say: Say, *, detail: bool = False) -> int:
        """Waits until all is compiled; returns how many processes ran. `detail`: also reports where their time went."""
        waited_s = time.perf_counter()
        status = self._running.wait()
        failed = status if 0 <= status <= self._processes else self._processes
        if detail:
            for line in self._report_lines():
                say(line)
        if failed:  # what is missing is compiled while the engine starts
            say(f"{failed} of {self._processes} compiling processes failed; the rest is compiled now.")
        else:
            stamp = _stamp(*self._made_of)
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.touch()
            took_s, waited_s = time.perf_counter() - self._begun_s, time.perf_counter() - waited_s
            say(f"kernels were compiled in {took_s:.1f} s, {waited_s:.1f} s of them with nothing else to do.")
        self._folder.cleanup()
        return self._processes

    def stop(self) -> None:
        """Ends the processes before they are done."""
        self._running.terminate()
        self._running.wait()
        self._folder.cleanup()

    def _report_lines(self) -> Iterator[str]:
        """Yields a line for each process: where its time went."""
        from rhapsode.kernel_cache.workers import PlanReport, WorkerReport

        folder = Path(self._folder.name)
        if (imports := folder / "imports.json").exists():
            yield f"imports: {float(imports.read_text()):.1f} s, once"
        for pattern, kind in (("plan.json", PlanReport), ("worker-*.json", WorkerReport)):
            for file in sorted(folder.glob(pattern)):
                yield f"{file.stem}: {kind(**json.loads(file.read_text('utf-8')))}"


def compile_kernels(
    spec: ModelSpec, source: Source, deployment: Deployment, say: Say, *, again: bool = False, detail: bool = False
) -> int:
    """Compiles in parallel unless the cache has been filled for this deployment; returns how many processes ran."""
    compiling = begin_compiling(spec, source, deployment, say, again=again)
    return compiling.wait(say, detail=detail) if compiling is not None else 0


def begin_compiling(
    spec: ModelSpec, source: Source, deployment: Deployment, say: Say, *, again: bool = False
) -> Compilation | None:
    """Starts to compile, unless there is nothing to compile or the cache has been filled for this deployment."""
    if not _may_compile(spec, deployment) or not launches_kernels(spec, deployment):
        return None
    if _stamp(spec, source, deployment).exists() and not again:
        return None
    return _begin(spec, source, deployment, say)


def begin_early(spec: ModelSpec, source: Source, deployment: Deployment, say: Say) -> Compilation | None:
    """Starts to compile before torch is imported, where it is certain that the cache was never filled.

    Importing torch takes seconds, in this process and in the compiling ones, so they import at the same time.
    """
    is_cold = not any(_cache().glob(f"{STAMP}*"))
    return _begin(spec, source, deployment, say) if is_cold and has_gpu() and _may_compile(spec, deployment) else None


def _begin(spec: ModelSpec, source: Source, deployment: Deployment, say: Say) -> Compilation:
    say(f"compiling kernels in {processes_of(deployment)} processes (once) ...")
    return Compilation(spec, source, deployment)


def processes_of(deployment: Deployment) -> int:
    """Returns how many processes compile: as the deployment says, or one per core, less those of server and planner."""
    if deployment.compile_processes is not None:
        return deployment.compile_processes
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MOST_PROCESSES, cores - 2))


def launches_kernels(spec: ModelSpec, deployment: Deployment) -> bool:
    """Returns whether this deployment launches kernels that Triton compiles, on this machine."""
    if not _may_launch(spec, deployment):
        return False
    from rhapsode.device.compile_only import available

    return available()


def _may_launch(spec: ModelSpec, deployment: Deployment) -> bool:
    return deployment.device != "cpu" and any(stage.kind == "frame" for stage in spec.pipeline)


def _may_compile(spec: ModelSpec, deployment: Deployment) -> bool:
    return processes_of(deployment) > 0 and deployment.graphs and _may_launch(spec, deployment)


def _lean(deployment: Deployment, source: Source) -> dict[str, Any]:
    """Returns settings for the same launches with less memory: random weights and few pages."""
    settings = deployment.model_dump(mode="json", exclude={"server"})
    settings |= {"random_weights": True, "compile_processes": 0}
    settings["memory"]["pages"] = PAGES
    return {"deployment": settings, "checkpoint": str(source.checkpoint or ""), "config": dict(source.config)}


def _cache() -> Path:
    return Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")


def _stamp(spec: ModelSpec, source: Source, deployment: Deployment) -> Path:
    """Returns the path of a marker file in the kernel cache, named by a hash of all that decides what is compiled."""
    import torch
    import triton

    card = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    sources = sorted(Path(__file__).parents[1].glob("nn/kernels/gpu/*.py"))
    kernels = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    known = [spec.name, dict(source.config), deciding(deployment), card, triton.__version__, torch.__version__, kernels]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:24]
    return _cache() / f"{STAMP}{digest}"


def deciding(deployment: Deployment) -> dict[str, Any]:
    """Returns the settings that decide which kernels are launched. Settings of admission are not among them."""
    names = {"device", "dtype", "weights", "deterministic", "memory", "chunks", "stages", "options"}
    limits = deployment.limits
    sizes = {"max_concurrency": limits.max_concurrency, "max_positions": limits.max_positions}
    return {**deployment.model_dump(mode="json", include=names), "limits": sizes}
