"""Measures 8-bit weights in the talker's layers: the error of hidden states and logits, changed codes, and time.

    python benchmarks/fp8.py                              # errors: Qwen3-TTS-1.7B's shape, random weights, 50 frames
    python benchmarks/fp8.py --shape qwen3-tts-0.6b --rows 8
    python benchmarks/fp8.py --times                      # matrix products on a GPU, 8 bits against 16, by rows

The same bfloat16 weights run in float32, in bfloat16 and quantised, with greedy decoding. Every frame starts from the
state of the float32 run, so that errors do not add up over frames. Random weights give flat logits: with trained
weights fewer codes change.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from rhapsode.bench.engine import stand_ins
from rhapsode.bench.engine.subject import write_shape
from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows, SlotTable
from rhapsode.models.base import StageContext
from rhapsode.models.qwen3_tts.talker import QwenTalker
from rhapsode.models.registry import Model, find

PAGE = 16
KINDS = {"float32": ("float32", "auto"), "bfloat16": ("bfloat16", "auto"), "fp8": ("bfloat16", "fp8")}


class Run:
    """One talker, and the hidden states and logits of its last frame."""

    def __init__(self, model: Model, dtype: str, weights: str, device: torch.device, rows: int, frames: int) -> None:
        found = (model.spec, model.checkpoint, model.config)
        context = StageContext(*found, str(device), dtype, weights=weights, random_weights=True)
        self.talker = talker = QwenTalker(context)
        pages = -(-frames // PAGE)
        self.table = SlotTable(rows, pages, device)
        self.table.pages[:rows] = torch.arange(1, rows * pages + 1, device=device).view(rows, pages)
        self.table.top_p.fill_(1.0)  # the temperature is zero: greedy
        self.table.repetition_penalty.fill_(1.05)
        self.state = talker.state(rows)
        kv = tuple(PagedKV(layout, rows * pages, PAGE, getattr(torch, dtype), device) for layout in talker.traits().kv)
        self._given = (torch.arange(rows, device=device), self.table, kv)
        self.seen: dict[str, Tensor] = {}
        for i, layer in enumerate(talker.net.model.layers):
            layer.register_forward_hook(lambda _, __, made, name=f"layer {i + 1}": self._keep(name, made))
        first, others = talker.logits, talker.net.code_predictor.logits
        talker.logits = lambda hidden: self._keep("code 1", first(hidden))
        talker.net.code_predictor.logits = lambda state, book: self._keep(f"code {book + 2}", others(state, book))

    def _keep(self, name: str, value: Tensor) -> Tensor:
        seen = value.to(torch.float32, copy=True)  # the next layer may overwrite it
        self.seen[name] = seen.flatten(0, -2)
        return value

    def step(self) -> Tensor:
        rows = Rows(*self._given)
        frames = self.talker.step(rows, self.state).frames
        self.table.advance(rows.slots)
        return frames

    def follow(self, other: Run) -> None:
        """Continues from the state of the other run."""
        self.state.previous.copy_(other.state.previous)
        self.state.history.copy_(other.state.history)


def share_weights(whole: Run, narrow: Run) -> None:
    """Copies the rounded weights to the float32 run, so that their rounding is no part of the error."""
    tables = ("text_table", "inputs")  # derived from weights; other buffers are better in float32
    given = {**dict(narrow.talker.net.named_parameters()), **dict(narrow.talker.net.named_buffers())}
    for name, tensor in (*whole.talker.net.named_parameters(), *whole.talker.net.named_buffers()):
        if isinstance(tensor, torch.nn.Parameter) or name.endswith(tables):
            tensor.data.copy_(given[name])


def errors(model: Model, device: torch.device, rows: int, frames: int) -> None:
    runs = {name: Run(model, *kind, device, rows, frames) for name, kind in KINDS.items()}
    exact, others = runs["float32"], [name for name in KINDS if name != "float32"]
    share_weights(exact, runs["bfloat16"])
    exact.state.previous.normal_(0, 0.5, generator=torch.Generator(device).manual_seed(1))
    off: dict[tuple[str, str], list[float]] = {}
    equal: dict[str, list[Tensor]] = {name: [] for name in others}
    for _ in range(frames):
        for name in others:
            runs[name].follow(exact)
        wanted = exact.step()
        for name in others:
            equal[name].append(runs[name].step() == wanted)  # [rows, codes]
            for what, value in exact.seen.items():
                if what not in runs[name].seen:  # kernels of many rows do not return from each layer
                    continue
                same = equal[name][-1][:, 0] if what == "code 2" else slice(None)  # its input is the first code
                value, found = value[same], runs[name].seen[what][same]
                if len(value):
                    off.setdefault((what, name), []).append(float((found - value).norm() / value.norm()))
    layers = len(exact.talker.net.model.layers)
    shown = [f"layer {i}" for i in sorted({1, layers // 4, layers // 2, 3 * layers // 4, layers} - {0})]
    print(f"relative error to float32, {frames} frames of {rows} rows: mean (largest)")
    for what in (*shown, "code 1", "code 2"):
        cells = [off.get((what, name), [float("nan")]) for name in others]
        print(
            f"  {what:9s}"
            + "".join(f"  {name} {mean(c):.4f} ({max(c):.4f})" for name, c in zip(others, cells, strict=True))
        )
    for name in others:
        same = torch.stack(equal[name])  # [frames, rows, codes]
        whole = same.all(-1)
        before = (~whole).float().cumsum(0).eq(0).sum(0).float().mean()
        print(
            f"  {name}: first codes equal {rate(same[..., 0])}, all codes {rate(same)}, whole frames {rate(whole)};"
            f" {float(before):.1f} frames before the first that differs"
        )


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def rate(same: Tensor) -> str:
    return f"{float(same.float().mean()):.1%}"


def times() -> None:
    from kernels import BANDWIDTH, COLD, LINEARS, Linear, graph_us

    from rhapsode.nn.quantised import Quantised

    counts = (1, 2, 4, 8, 16, 32)
    print("us by rows: 16 bits / 8 bits; the floor is that of 8 bits")
    print(f"  {'':18s} {'floor':>5s} " + " ".join(f"{m:>11d}" for m in counts))
    for name, (n, k, _) in LINEARS.items():
        linear = Linear(name, copies=max(4, min(96, 2 * COLD // (n * k))))
        wide = [graph_us(linear.call(m), linear.copies) for m in counts]
        linear.weights = [Quantised(weight).packed for weight in linear.weights]
        narrow = [graph_us(linear.call(m), linear.copies) for m in counts]
        cells = " ".join(f"{f'{a:.1f}/{b:.1f}':>11s}" for a, b in zip(wide, narrow, strict=True))
        print(f"  {name:18s} {n * k / BANDWIDTH * 1e6:5.2f} {cells}", flush=True)


@torch.inference_mode()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--shape", default="qwen3-tts-1.7b", help="a packaged shape, a folder or a config.json")
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--rows", type=int, default=1)
    arguments.add_argument("--frames", type=int, default=50)
    arguments.add_argument("--times", action="store_true")
    given = arguments.parse_args()
    torch.manual_seed(0)
    if given.times:
        times()
        return
    stand_ins.install()
    with tempfile.TemporaryDirectory() as folder:
        write_shape(given.shape, Path(folder))
        errors(find(folder), torch.device(given.device), given.rows, given.frames)


if __name__ == "__main__":
    main()
