"""Measures where the time of a server's start goes, on a GPU.

    python benchmarks/start_up.py [--parts imports,cold,warm,plain,eager,profile] [--keep FOLDER] [--shape SHAPE]

| part | what it does | about |
|---|---|---|
| imports | times torch, CUDA and Triton in a fresh process | 10 s |
| cold | starts a server with an empty kernel cache | 30 s |
| warm | starts one with a full cache, twice | 20 s |
| profile | starts the engine in a process of its own, with a profile of each stage's start | 12 s |
| plain | the same without a profile | 9 s |
| eager | the same with an eager launch before every capture, not only before the first one of each function | 10 s |

The last three print a checksum of what the captured graphs compute: it must be the same. The folder of `--keep`
holds the kernels, so that a later run can leave `cold` out.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import io
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from started_server import started

SLOTS = 256
SHOWN = 25
HASHED = 1 << 20
"""Numbers at each end of a tensor that a checksum looks at: a launch of the scratch slot writes there."""


def say(text: str) -> None:
    print(text, flush=True)


class Laps:
    """Prints how long each step took."""

    def __init__(self) -> None:
        self._last_s = time.perf_counter()

    def __call__(self, name: str) -> None:
        now_s = time.perf_counter()
        say(f"  {now_s - self._last_s:7.3f} s  {name}")
        self._last_s = time.perf_counter()


def imports() -> None:
    """Imports torch, starts CUDA and Triton, step by step."""
    lap = Laps()
    import torch

    lap(f"import torch {torch.__version__}")
    cached = (Path(torch.__file__).parent / "__pycache__").is_dir()
    say(f"           bytecode of torch is cached: {cached}; writes bytecode: {not sys.dont_write_bytecode}")
    torch.cuda.is_available()
    lap("torch.cuda.is_available")
    torch.cuda.get_device_name()
    lap("get_device_name")
    weight = torch.zeros(256, 256, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    lap("context and first kernel")
    weight @ weight
    torch.cuda.synchronize()
    lap("first product")
    import triton.compiler.compiler as compiler
    from triton.runtime import driver
    from triton.runtime.cache import triton_key

    lap("import triton")
    triton_key()
    lap("triton_key: hash of Triton's files")
    target = driver.active.get_current_target()
    lap("Triton's driver")
    compiler.make_backend(target).hash()
    lap("version of its assembler")
    import rhapsode.engine.build  # noqa: F401

    lap("import of the engine")


def settings(model: str, folder: Path) -> dict[str, Any]:
    limits = {"max_concurrency": SLOTS, "max_queue": 1024}
    return {"model": model, "limits": limits, "random_weights": True, "server": {"port": 0, "voices": str(folder)}}


def serve(name: str, model: str, folder: Path) -> None:
    with started(settings(model, folder), folder, folder / f"{name}.log") as server:
        say(f"{name}: ready after {server.ready_s:.1f} s")
        for line in server.start_lines():
            say(f"  {line}")


def start(model: str, folder: Path, kind: str) -> None:
    """Starts the engine as a server does, and prints where the time goes."""
    import torch

    from rhapsode.config import Deployment
    from rhapsode.device import compilations
    from rhapsode.device.replay import Replay
    from rhapsode.engine import Engine, Source
    from rhapsode.models.registry import find

    if kind == "eager":
        replay: Any = Replay
        replay._record_later = replay._record_first
    torch.manual_seed(0)
    found, lap = find(model), Laps()
    deployment = Deployment.model_validate(settings(model, folder))
    engine = Engine(found.spec, deployment, Source(found.checkpoint, found.config))
    lap("model")
    for name, stage in engine.pipeline.stages.items():
        if kind == "profile":
            profiled(name, stage.start)
        else:
            stage.start()
        lap(f"start of {name}")
    parts = ", ".join(f"{part} {seconds:.2f} s" for part, seconds in compilations.spent_s().items())
    say(f"  of these: {parts}; {compilations.count()} kernels and graphs")
    say(f"  {checksum(engine)}")
    os._exit(0)  # nothing runs that would have to be stopped


def profiled(name: str, work: Callable[[], object]) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(work)
    text = io.StringIO()
    stats = pstats.Stats(profiler, stream=text).strip_dirs()
    stats.sort_stats("tottime").print_stats(SHOWN)
    if stats.total_tt > 0.1:  # type: ignore[attr-defined]
        stats.sort_stats("cumulative").print_stats(SHOWN)
        lines = [line[:150] for line in text.getvalue().splitlines() if line.strip()]
        say("\n".join([f"--- start of {name}", *lines]))


def checksum(engine: Any) -> str:
    """Replays every captured launch once, on zeroed state, and hashes what it returns and the state it leaves."""
    import torch

    def hash_ends(tensor: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        for part in (tensor.flatten()[:HASHED], tensor.flatten()[-HASHED:]):
            digest.update(part.cpu().contiguous().view(torch.uint8).numpy().tobytes())

    digest, replayed = hashlib.sha256(), 0
    with torch.inference_mode():
        for stage in engine.pipeline.stages.values():
            for recording in recordings(stage):
                for tensor in stage._memory.tensors():
                    tensor.zero_()
                out = recording.replay()
                for tensor in [*stage._memory.tensors(), *([] if out is None else [out])]:
                    hash_ends(tensor)
                replayed += 1
    return f"checksum of {replayed} launches: {digest.hexdigest()[:16]}"


def recordings(stage: Any) -> Iterator[Any]:
    """Yields all captured launches of a stage: its prompts, and its steps."""
    prompts = getattr(getattr(stage, "_worker", None), "_prompts", None)
    captured = getattr(getattr(prompts, "_replay", None), "_captured", {})
    yield from (launch.recording for launch in captured.values())
    for entries in getattr(getattr(stage, "_launcher", None), "_graphs", {}).values():
        yield from (recording for _, recording in entries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="imports,cold,warm,plain,eager,profile")
    parser.add_argument("--keep", type=Path, help="a folder for kernels and logs")
    parser.add_argument("--shape", default="qwen3-tts-1.7b")
    parser.add_argument("--inside", choices=["imports", "profile", "plain", "eager"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="rhapsode-start-"))
    model = folder / "checkpoint"
    if options.inside == "imports":
        imports()
    elif options.inside:
        start(str(model), folder, options.inside)
    if options.inside:
        return
    from rhapsode.bench.engine.subject import write_shape

    model.mkdir(parents=True, exist_ok=True)
    write_shape(options.shape, model)
    begun_s = time.monotonic()
    for part in options.parts.split(","):
        if part in ("cold", "warm"):
            for number in range(2 if part == "warm" else 1):
                serve(f"{part}-{number}", str(model), folder)
        else:
            say(f"{part}:")
            command = [sys.executable, __file__, "--inside", part, "--keep", str(folder)]
            subprocess.run(command, env={**os.environ, "TRITON_CACHE_DIR": str(folder / "kernels")}, check=False)
        say(f"[{time.monotonic() - begun_s:.0f} s]")


if __name__ == "__main__":
    main()
