"""Processes that compile the kernels of a deployment together, started as `python -m rhapsode.engine.compile_workers`.

One process imports everything and forks the others, so that the imports are paid once. It must not touch CUDA before:
CUDA does not work in a process that was forked after it was initialised.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from rhapsode.config import Deployment
from rhapsode.engine.engine import Engine
from rhapsode.engine.pipeline import Source
from rhapsode.errors import ConfigError
from rhapsode.models.base import ModelSpec
from rhapsode.models.lazy import import_name
from rhapsode.models.registry import find

SLOWEST = 5
"""Kernels that a report names."""


@dataclass(frozen=True)
class WorkerReport:
    """Where the time of one process went, in seconds."""

    device_s: float
    """Until the GPU could be used."""
    build_s: float
    """To build the model, with random weights."""
    compile_s: float
    launch_s: float
    """To go through all launches, without compiling."""
    kernels: int
    memory_gb: float
    """The most GPU memory it used."""
    slowest: list[tuple[str, float]]

    def __str__(self) -> str:
        slowest = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self.slowest)
        return (
            f"device {self.device_s:.1f} s, model {self.build_s:.1f} s, launches {self.launch_s:.1f} s, "
            f"{self.kernels} kernels {self.compile_s:.1f} s (longest: {slowest or 'none'}), {self.memory_gb:.1f} GB"
        )


def compile_in_processes(folder: Path, processes: int) -> int:
    """Forks the processes and returns how many failed. `folder` has the deployment, and gets a report of each."""
    started_s = time.perf_counter()
    gc.disable()  # these processes end soon
    given = json.loads((folder / "deployment.json").read_text("utf-8"))
    deployment = Deployment.model_validate(given["deployment"])
    checkpoint = Path(given["checkpoint"]) if given["checkpoint"] else None
    spec = find(str(checkpoint or deployment.model)).spec
    for name in ("triton.knobs", "rhapsode.device.compile_only", "rhapsode.engine.build"):
        importlib.import_module(name)
    for stage in spec.pipeline:
        import_name(stage.factory)
    (folder / "imports.json").write_text(json.dumps(time.perf_counter() - started_s))
    (folder / "claims").mkdir()
    children = []
    for number in range(processes):
        child = os.fork()
        if not child:
            _run_child(folder, number, spec, deployment, Source(checkpoint, given["config"]))
        children.append(child)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


def _run_child(folder: Path, number: int, spec: ModelSpec, deployment: Deployment, source: Source) -> None:
    """Runs in a forked process: compiles, writes a report, and exits, also after an error."""
    status = 1
    try:
        report = _compile(folder / "claims", number, spec, deployment, source)
        (folder / f"worker-{number}.json").write_text(json.dumps(asdict(report)), "utf-8")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _compile(claims: Path, number: int, spec: ModelSpec, deployment: Deployment, source: Source) -> WorkerReport:
    """Goes through all launches, every other process from the last stage to the first: so the longest kernels, wherever
    they are, are not all begun at the end."""
    import torch

    from rhapsode.device.compile_only import compile_only

    marks_s = [time.perf_counter()]
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    marks_s.append(time.perf_counter())
    with compile_only(claims) as compiled:
        built = Engine(spec, deployment, source)
        marks_s.append(time.perf_counter())
        built_kernels_s = sum(seconds for _, seconds in compiled)
        stages = list(built.pipeline.stages.values())
        for stage in reversed(stages) if number % 2 else stages:
            stage.start()
        marks_s.append(time.perf_counter())
    compile_s = sum(seconds for _, seconds in compiled)
    return WorkerReport(
        device_s=marks_s[1] - marks_s[0],
        build_s=marks_s[2] - marks_s[1] - built_kernels_s,
        compile_s=compile_s,
        launch_s=marks_s[3] - marks_s[2] - (compile_s - built_kernels_s),
        kernels=len(compiled),
        memory_gb=torch.cuda.max_memory_allocated() / 1e9,
        slowest=sorted(compiled, key=lambda one: -one[1])[:SLOWEST],
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise ConfigError("this module is started by `rhapsode compile`.")
    try:
        sys.exit(compile_in_processes(Path(sys.argv[1]), int(sys.argv[2])))
    except Exception:
        traceback.print_exc()
        sys.exit(int(sys.argv[2]))  # none of them ran
