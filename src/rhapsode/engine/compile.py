"""Fills the kernel cache before the first start: several processes compile what a deployment launches."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rhapsode.config import Deployment
from rhapsode.engine.pipeline import Source
from rhapsode.models.base import ModelSpec

PAGES = 64
"""KV pages of a compiling process: how many there are changes no kernel."""
Say = Callable[[str], None]


def compile_kernels(
    spec: ModelSpec,
    source: Source,
    deployment: Deployment,
    say: Say = lambda line: None,
    *,
    again: bool = False,
    detail: bool = False,
) -> int:
    """Compiles in parallel unless the cache has been filled for this deployment; returns how many processes ran.

    With `detail` it also says where the time of each process went.
    """
    processes = deployment.compile_processes
    if not processes or not deployment.graphs or not _on_gpu(spec, deployment):
        return 0
    stamp = _stamp(spec, source, deployment)
    if stamp.exists() and not again:
        return 0
    say(f"compiling kernels in {processes} processes (once) ...")
    with tempfile.TemporaryDirectory(prefix="rhapsode-compile-") as folder:
        (Path(folder) / "deployment.json").write_text(json.dumps(_lean(deployment, source), default=str), "utf-8")
        failed = _run_processes(folder, processes)
        if detail:
            for line in _report_lines(Path(folder)):
                say(line)
    if failed:  # what is missing is compiled while the engine starts
        say(f"{failed} of {processes} compiling processes failed; the rest is compiled now.")
        return processes
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()
    return processes


def _run_processes(folder: str, processes: int) -> int:
    """Returns how many of the processes failed."""
    command = [sys.executable, "-m", "rhapsode.engine.compile_workers", folder, str(processes)]
    # Whether there is a GPU is asked without CUDA, which must not start before the fork.
    status = subprocess.run(command, env={**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}, check=False).returncode
    return status if 0 <= status <= processes else processes


def _report_lines(folder: Path) -> Iterator[str]:
    """Says where the time of each process went."""
    from rhapsode.engine.compile_workers import WorkerReport

    if (imports := folder / "imports.json").exists():
        yield f"imports: {float(imports.read_text()):.1f} s, once"
    for file in sorted(folder.glob("worker-*.json")):
        yield f"{file.stem}: {WorkerReport(**json.loads(file.read_text('utf-8')))}"


def _on_gpu(spec: ModelSpec, deployment: Deployment) -> bool:
    if deployment.device == "cpu" or not any(stage.kind == "frame" for stage in spec.pipeline):
        return False
    from rhapsode.device.compile_only import available

    return available()


def _lean(deployment: Deployment, source: Source) -> dict[str, Any]:
    """The same launches with less memory: random weights, few pages."""
    settings = deployment.model_dump(mode="json", exclude={"server"})
    settings |= {"random_weights": True, "compile_processes": 0}
    settings["memory"]["pages"] = PAGES
    return {"deployment": settings, "checkpoint": str(source.checkpoint or ""), "config": dict(source.config)}


def _stamp(spec: ModelSpec, source: Source, deployment: Deployment) -> Path:
    """A file in the kernel cache that stands for everything which decides what is compiled."""
    import torch
    import triton

    card = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    settings: Mapping[str, Any] = deployment.model_dump(mode="json", exclude={"server", "model", "companions"})
    sources = sorted(Path(__file__).parents[1].glob("nn/kernels/gpu/*.py"))
    kernels = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    known = [spec.name, dict(source.config), settings, card, triton.__version__, torch.__version__, kernels]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:24]
    cache = os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache"
    return Path(cache) / f"rhapsode-{digest}"
