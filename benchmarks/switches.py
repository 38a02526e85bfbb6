"""Compares kernels with and without the changes that are off by default, in one process: frames of three families.

    python benchmarks/switches.py [--only qwen3-tts-1.7b] [--seconds 35]

A variant is a list of constants in `nn` with other values. For each: milliseconds of a frame in a CUDA graph, the
largest difference from plain PyTorch over the largest value (hidden states or patch; "now" has one, too), the share of
greedy codes that are those of "now", and how many replays from the same state gave another result, which must be none.
A variant that fails is reported, and the others go on. Kernels are compiled by many processes first.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from kernels import graph_us
from talker_frame import anew, make_worker, prepare
from torch import Tensor

from rhapsode.bench.engine.subject import subject, write_shape
from rhapsode.device.compile_only import claimed_by_others, compile_only
from rhapsode.nn import kernels

PROCESSES = 14
REPLAYS = 8
HANGS_S = 15
Restart = Callable[[str, str], None]
SWITCHES: dict[str, tuple[str, Any]] = {
    "early": ("kernels.gpu.launch.EARLY_ROWS", range(2, 17)),
    "late": ("kernels.gpu.launch.EARLY_ROWS", range(0)),
    "overlap4": ("kernels.gpu.launch.OVERLAP_ROWS", 4),
    "crowded": ("kernels.gpu.linear_plan.OVERLAP_PROGRAMS", 1 << 20),
    "apart": ("kernels.gpu.linear_plan.OVERLAP_PROGRAMS", 0),
    "threads": ("kernels.gpu.linear_plan.PER_THREAD", 128),
    "wave": ("kernels.gpu.linear_plan.WAVES", 1),
    "exact": ("kernels.gpu.float8.EXACT_ROWS", 1 << 20),
    "fast": ("kernels.gpu.float8.EXACT_ROWS", 0),
    "narrow": ("depth.WIDENED_ROWS", 1 << 20),
    "widened": ("depth.WIDENED_ROWS", 0),
}
"""Names of `rhapsode.nn`, and their other values."""

QWEN, QWEN8 = "qwen3-tts-1.7b", "qwen3-tts-1.7b fp8"
EIGHT_BITS = {1: (), 2: (), 4: (), 8: (), 16: (), 32: ("fast",), 64: ("fast",)} | dict.fromkeys(
    (128, 256, 512), ("narrow", "widened", "exact", "fast")
)
MEASURED: list[tuple[str, int, tuple[str, ...]]] = [
    *(one for rows, names in EIGHT_BITS.items() for one in ((QWEN, rows, ("",)), (QWEN8, rows, ("", *names)))),
    (QWEN, 1, ("", "threads")),
    (QWEN, 4, ("", "late")),
    (QWEN, 8, ("", "early", "apart", "wave")),
    (QWEN, 16, ("", "apart")),
    ("voxcpm2", 1, ("",)),
    ("fish-s2-pro", 8, ("", "overlap4 apart", "apart", "crowded")),
]
"""A family, with 8-bit weights or not, rows, and variants: the first is the present state."""
FAMILIES = list(dict.fromkeys(name for name, _, _ in MEASURED))


@contextmanager
def switched(names: str) -> Iterator[None]:
    """Sets the constants of a variant."""
    before = []
    try:
        for name in names.split():
            path, value = SWITCHES[name]
            module_name, constant = f"rhapsode.nn.{path}".rsplit(".", 1)
            module = importlib.import_module(module_name)
            before.append((module, constant, getattr(module, constant)))
            setattr(module, constant, value)
        yield
    finally:
        for module, constant, value in reversed(before):
            setattr(module, constant, value)


# --- frames ---


class Found(NamedTuple):
    """What one variant gave."""

    took_us: float
    frame: Tensor  # codes or a patch
    states: Tensor  # what the codes are drawn from; a patch itself
    unequal: int  # of all replays


class Bench:
    """A talker with rows in the middle of their speech, which is set back before every measurement."""

    def __init__(self, talker: Any, batch: int) -> None:
        torch.manual_seed(0)
        self.talker = talker
        self.rows, self.state = prepare(talker, batch)
        for kv in self.rows.kv:
            kv.keys.normal_()
            kv.values.normal_()
        for name in ("previous", "next", "patch"):  # what families call the input of a step
            if hasattr(self.state, name):
                getattr(self.state, name).normal_()
        if hasattr(talker, "logits"):  # Qwen3-TTS: greedy codes
            self.rows.table.temperature.zero_()
        if hasattr(self.state, "schedule"):  # VoxCPM2: as many steps as there are, with guidance
            self.state.schedule.fill_(len(talker.net.dit.schedules.step_counts) - 1)
            self.state.cfg_value.fill_(2.0)
        self._kept = [tensor.clone() for tensor in self._changing()]

    def _changing(self) -> list[Tensor]:
        return [*self.state.tensors(), *self.rows.table.tensors()]

    def back(self) -> None:
        for tensor, kept in zip(self._changing(), self._kept, strict=True):
            tensor.copy_(kept)

    def step(self, i: int = 0) -> Tensor:
        return self.talker.step(anew(self.rows), self.state).frames

    def states(self) -> Tensor:
        self.back()
        if not hasattr(self.talker, "logits") or not hasattr(self.talker, "input"):
            return self.step().float()
        rows = anew(self.rows)
        x = self.talker.input(rows, self.state)[:, None]
        return self.talker.hidden(x, rows, rows.positions[:, None]).float()

    def measure(self) -> Found:
        self.back()
        took_us = graph_us(self.step, 1)
        states = self.states().clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            frame = self.step()
        results = []
        for _ in range(REPLAYS):
            self.back()
            graph.replay()
            results.append(frame.clone())
        return Found(took_us, results[0], states, sum(not torch.equal(one, results[0]) for one in results))


def compare(bench: Bench, batch: int, variants: Sequence[str], left: Callable[[], float], restart: Restart) -> None:
    with kernels.use("off"):
        plain = bench.states()
    now: Found | None = None
    for names in variants:
        if left() < 0:
            print(f"  {batch:2d} rows  {names or 'now'}: no time left")
            continue
        watch = threading.Timer(HANGS_S, restart, (names, "hangs"))
        watch.start()
        try:
            with switched(names):
                found = bench.measure()
        except Exception as error:
            print(f"  {batch:2d} rows  {names}: FAILED, {type(error).__name__}: {str(error)[:150]!r}", flush=True)
            try:
                torch.cuda.synchronize()
            except Exception:
                restart(names, "the GPU's context is lost")
            continue
        finally:
            watch.cancel()
        now = now or found
        error = float((found.states - plain).abs().max() / plain.abs().max())
        same = float((found.frame == now.frame).float().mean())
        bits = "same bits" if torch.equal(found.states, now.states) else "other bits"
        print(
            f"  {batch:2d} rows {found.took_us / 1e3:6.3f} ms ({found.took_us / now.took_us:.3f})  {names or 'now'}:"
            f" error {error:.1e}, {bits}, equal codes {same:.3f}, replays that differ {found.unequal}",
            flush=True,
        )


def frames(given: argparse.Namespace, left: Callable[[], float]) -> None:
    talkers: dict[str, Any] = {}
    for number, (name, batch, variants) in enumerate(MEASURED):

        def restart(failed: str, why: str, number: int = number) -> None:
            """Begins again with this batch in a new process image, without the variants that failed."""
            print(f"  {failed}: {why}; restarting", flush=True)
            command = [sys.argv[0], "--only", *given.only, "--seconds", str(left()), "--from-number", str(number)]
            os.execv(sys.executable, [sys.executable, *command, "--without", *given.without, failed])

        if name in given.only and number >= given.from_number:
            if left() < 0:
                print(f"{name}, {batch} rows: no time left", flush=True)
                continue
            print(f"{name}, {left():.0f} s left", flush=True)
            wanted = [names for names in variants if names not in given.without]
            talker = talker_of(name, name, talkers)
            compare(Bench(talker, batch), batch, wanted, left, restart)


def talker_of(name: str, shape: str, made: dict[str, Any]) -> Any:
    """Makes the talker of a family, or returns the one that was made; `shape` may be a folder."""
    if name not in made:
        with subject(None, shape.removesuffix(" fp8")) as found:
            made[name] = make_worker(found, weights="fp8" if name.endswith(" fp8") else "auto")
    return made[name]


# --- compiling ---


def small_shape(name: str, folder: Path) -> str:
    """Writes the shape with one layer per stack: it has the same kernels."""
    write_shape(name, folder)
    file = folder / "config.json"

    def lower(value: Any) -> Any:
        if isinstance(value, dict):
            one = {"num_hidden_layers", "num_layers", "residual_lm_num_layers", "n_layer"}
            return {key: 1 if key in one else lower(inner) for key, inner in value.items()}
        return value

    file.write_text(json.dumps(lower(json.loads(file.read_text("utf-8")))), "utf-8")
    return str(folder)


def compile_variants(names: Sequence[str], number: int, claims: Path) -> None:
    """One of several processes that compile what the measurements launch."""
    with compile_only(claimed_by_others(claims)):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                talker = talker_of(name, small_shape(name.removesuffix(" fp8"), Path(folder)), {})
            measured = [(batch, variants) for family, batch, variants in MEASURED if family == name]
            work = [(batch, variant) for batch, variants in measured for variant in variants]
            turn = number * len(work) // PROCESSES
            benches = {batch: Bench(talker, batch) for batch, _ in measured}
            for batch, variant in work[turn:] + work[:turn]:
                with suppress(Exception), switched(variant):  # reported when it is measured
                    benches[batch].step()


@torch.inference_mode()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    arguments.add_argument("--seconds", type=float, default=35, help="starts no measurement after so many")
    arguments.add_argument("--from-number", type=int, default=0, help=argparse.SUPPRESS)
    arguments.add_argument("--without", nargs="*", default=[], help="variants to leave out")
    arguments.add_argument("--worker", nargs=2, metavar=("NUMBER", "FOLDER"), help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.worker:
        compile_variants(given.only, int(given.worker[0]), Path(given.worker[1]))
        return
    started = time.monotonic()
    left = lambda: given.seconds - (time.monotonic() - started)  # noqa: E731
    with tempfile.TemporaryDirectory() as claims:  # after a restart there is nothing left to compile
        command, one_thread = [sys.executable, *sys.argv, "--worker"], {**os.environ, "OMP_NUM_THREADS": "1"}
        numbers = range(0 if given.without else PROCESSES)
        workers = [subprocess.Popen([*command, str(i), claims], env=one_thread) for i in numbers]
        for worker in workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(max(1.0, left() - 20))
        for worker in workers:
            worker.kill()
    print(f"compiled, {left():.0f} s left", flush=True)
    frames(given, left)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
