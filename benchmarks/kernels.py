"""Compares every kernel of `nn/kernels` with its PyTorch reference on a GPU, at the shapes of Qwen3-TTS-1.7B.

    python benchmarks/kernels.py

It prints errors, and times by number of rows. Other tile sizes for the linears: `benchmarks/linear_plans.py`.

Times are microseconds of one call inside a CUDA graph of many. Each call has weights of its own, so that no cache holds
them. The floor is the bytes a call has to read over 4.1 TB/s. `overlap` is programmatic dependent launch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rhapsode.device.kv import KVLayout, PagedKV
from rhapsode.device.slots import Rows, SlotTable
from rhapsode.nn import kernels
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.depth import FrameAttention
from rhapsode.nn.kernels.embedding import frame_sum
from rhapsode.nn.kernels.gpu import linear as gpu_linear
from rhapsode.nn.kernels.gpu import linear_plan
from rhapsode.nn.kernels.gpu.launch import overlap
from rhapsode.nn.kernels.heads import HeadNorm, ProjectedHeads
from rhapsode.nn.kernels.linear import fused_linear
from rhapsode.nn.kernels.norm import rms_norm
from rhapsode.nn.kernels.sampling import Rules, Settings
from rhapsode.nn.kernels.weight import Norm
from rhapsode.nn.rope import Rope, RopeConfig
from rhapsode.nn.sampling import Gumbel, draw

GPU = torch.device("cuda")
BANDWIDTH = 4.1e12
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXT = 200
COLD = 160 << 20  # bytes of weights in a graph: more than the L2 cache holds
LINEARS = {  # outputs, inputs, what is fused in
    "talker qkv": (4096, 2048, {"norm"}),
    "talker o": (2048, 2048, {"residual"}),
    "talker gate_up": (12288, 2048, {"norm", "gated"}),
    "talker down": (2048, 6144, {"residual"}),
    "talker head": (3072, 2048, set()),
    "predictor qkv": (4096, 1024, {"norm"}),
    "predictor o": (1024, 2048, {"residual"}),
    "predictor gate_up": (6144, 1024, {"norm", "gated"}),
    "predictor down": (1024, 3072, {"residual"}),
    "predictor head": (2048, 1024, {"norm"}),
}
Call = Callable[[int], Any]


def random(*shape: int, dtype: torch.dtype = torch.bfloat16, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, device=GPU, dtype=dtype) * scale


class Linear:
    """One of the linear layers, with several copies of its weights."""

    def __init__(self, name: str, dtype: torch.dtype = torch.bfloat16, copies: int | None = None) -> None:
        self.n, self.k, self.fused = LINEARS[name]
        self.bytes = self.n * self.k * dtype.itemsize
        self.copies = copies or max(4, min(24, COLD // self.bytes))
        self.weights = [random(self.n, self.k, dtype=dtype, scale=self.k**-0.5) for _ in range(self.copies)]
        self.gain = random(self.k, dtype=dtype)
        self.width = self.n // 2 if "gated" in self.fused else self.n
        self.dtype = dtype

    def call(self, rows: int, run: Callable[..., Tensor] = fused_linear, **extra: object) -> Call:
        x = random(rows, self.k, dtype=self.dtype)
        residual = random(rows, self.width, dtype=self.dtype) if "residual" in self.fused else None
        norm = Norm(self.gain, 1e-6) if "norm" in self.fused else None
        gated = "gated" in self.fused
        return lambda i: run(x, self.weights[i], norm=norm, gated=gated, residual=residual, **extra)


def attention_calls(rows: int, dtype: torch.dtype, layers: int) -> tuple[Call, Callable[[], Tensor]]:
    """Returns the talker's attention at `CONTEXT` positions, one call per layer, and a function that reads its keys."""
    pages = -(-(CONTEXT + 16) // 16)
    table = SlotTable(rows, pages, GPU)
    table.pages[:rows] = torch.arange(1, rows * pages + 1, device=GPU).view(rows, pages)
    kv = PagedKV(KVLayout(layers, 8, 128), rows * pages, 16, dtype, GPU)
    kv.keys.normal_()
    kv.values.normal_()
    positions = torch.full((rows, 1), CONTEXT, device=GPU)
    batch = Rows(torch.arange(rows, device=GPU), table, (kv,))
    rotary = Rope(RopeConfig(128, 1e6)).to(GPU)(positions, dtype)
    heads = ProjectedHeads(random(rows, 1, 4096, dtype=dtype), 16, 8, 128, head_norm(dtype), rotary)
    backend = PagedAttention(kv, batch, positions)
    return lambda i: backend.attend_heads(i, heads), lambda: kv.keys.clone()


def frame_calls(rows: int, dtype: torch.dtype) -> Call:
    """Returns the predictor's attention at its last position but one, one call per layer."""
    config = DecoderConfig(1024, 3072, 5, 16, 8, 128, RopeConfig(128, 1e6), qk_norm=True)
    angles = Rope(RopeConfig(128, 1e6)).to(GPU)(torch.arange(16, device=GPU)[None], dtype)
    frame = FrameAttention(config, rows, 16, angles, dtype, GPU)
    for keys in frame.keys:
        keys.normal_()
    for values in frame.values:
        values.normal_()
    frame.take(14)
    rotary = frame.take(1)
    heads = ProjectedHeads(random(rows, 1, 4096, dtype=dtype), 16, 8, 128, head_norm(dtype), rotary)
    return lambda i: frame.attend_heads(i, heads)


def head_norm(dtype: torch.dtype) -> HeadNorm:
    return HeadNorm(*torch.ones(2, 128, dtype=dtype, device=GPU), 1e-6)


def draw_call(rows: int, vocab: int, ruled: bool, top_p: float = 1.0) -> Call:
    logits = random(rows, vocab, scale=3.0)
    ids = torch.arange(vocab, device=GPU)
    slots = torch.arange(rows, device=GPU)
    steps = torch.full((rows,), 7, device=GPU)
    rules = Rules(
        random(rows, vocab) > 1, slots, torch.full((rows,), 1.05, device=GPU), ids >= 2048, ids == 2150, steps, 2
    )
    temperature = torch.full((rows,), 0.9, device=GPU)
    settings = Settings(temperature, torch.full((rows,), 50, device=GPU), torch.full((rows,), top_p, device=GPU))
    gumbel = Gumbel([vocab], GPU)
    return lambda i: draw(logits, settings, gumbel(slots + 99, steps)[0], None, rules if ruled else None)


def embedding_call(rows: int) -> Call:
    codes = torch.randint(0, 2048, (rows, 16), device=GPU)
    first, others = random(3072, 2048), random(15, 2048, 2048)
    return lambda i: frame_sum(codes, first, others)


# --- errors ---


def check() -> None:
    print("errors: largest difference over the reference's largest value")
    for dtype in (torch.bfloat16, torch.float32):
        found = []
        for name in LINEARS:
            linear = Linear(name, dtype, copies=1)
            worst = 0.0
            for rows in (1, 3, 16, 40):
                call = linear.call(rows)
                worst = max(worst, difference(call))
            found.append(f"{name} {worst:.1e}")
        for rows in (1, 40):
            call, stored = attention_calls(rows, dtype, 1)
            with kernels.use("off"):
                call(0)
                wanted = stored()
            error = difference(call)
            keys = (stored() - wanted).abs().max() / wanted.abs().max()
            found.append(f"paged[{rows}] {error:.1e} keys {float(keys):.1e}")
            found.append(f"frame[{rows}] {difference(frame_calls(rows, dtype)):.1e}")
        print(f"  {str(dtype)[6:]}: " + ", ".join(found), flush=True)
    for what, call in (
        ("first code", draw_call(256, 3072, True)),
        ("other code", draw_call(256, 2048, False)),
        ("top-p 0.9", draw_call(256, 2048, False, 0.9)),
    ):
        with kernels.use("off"):
            wanted = call(0)
        print(f"  draws that differ, {what}: {int((call(0) != wanted).sum())} of 256")
    print(f"  embedding sum {difference(embedding_call(5)):.1e}")


def difference(call: Call) -> float:
    torch.manual_seed(1)
    with kernels.use("off"):
        wanted = call(0).clone().float()
    state = call(0).float()
    return float((state - wanted).abs().max() / wanted.abs().max())


# --- times ---


def graph_us(call: Call, count: int, replays: int = 10) -> float:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call(0)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            call(i)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    for _ in range(3):
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end))
    return best * 1e3 / replays / count


def versus(make: Callable[[int], Call], count: int, rows: Sequence[int] = ROWS) -> str:
    cells = []
    for m in rows:
        fused = graph_us(make(m), count)
        with kernels.use("off"):
            plain = graph_us(make(m), count)
        with overlap(True):
            early = graph_us(make(m), count) if m <= 16 else float("nan")
        cells.append(f"{fused:.1f}/{early:.1f}/{plain:.1f}")
    return " ".join(f"{cell:>15s}" for cell in cells)


def times() -> None:
    print("\ntimes in us: kernel / kernel with overlap / plain PyTorch, by rows")
    print(f"  {'':18s} {'floor':>5s} " + " ".join(f"{m:>15d}" for m in ROWS))
    for name in LINEARS:
        linear = Linear(name)
        print(f"  {name:18s} {linear.bytes / BANDWIDTH * 1e6:5.2f} {versus(linear.call, linear.copies)}", flush=True)
    gain = random(2048)
    position = 2 * 8 * 128 * 2
    calls: dict[str, tuple[Callable[[int], Call], int, int]] = {
        "rms norm 2048": (lambda m: _norm_call(random(m, 2048), gain), 8, 2 * 2 * 2048),
        f"paged, {CONTEXT} pos.": (lambda m: attention_calls(m, torch.bfloat16, 4)[0], 4, CONTEXT * position),
        "frame, 15 pos.": (lambda m: frame_calls(m, torch.bfloat16), 5, 15 * position),
        "draw 3072, rules": (lambda m: draw_call(m, 3072, True), 8, 3 * 3072),
        "draw 2048": (lambda m: draw_call(m, 2048, False), 8, 2 * 2048),
        "draw 2048, top-p": (lambda m: draw_call(m, 2048, False, 0.9), 8, 2 * 2048),
        "embedding sum": (embedding_call, 8, 16 * 2 * 2048),
    }
    for name, (make, count, per_row) in calls.items():
        print(f"  {name:18s} {per_row / BANDWIDTH * 1e6:5.2f} {versus(make, count)}  (floor per row)", flush=True)


def _norm_call(x: Tensor, gain: Tensor) -> Call:
    return lambda i: rms_norm(x, gain, 1e-6)


def kinds() -> None:
    print("\nkernels for few rows, us: vector / rows")
    for name in LINEARS:
        linear, cells = Linear(name), []
        gated = "gated" in linear.fused
        for m in (1, 2, 4):
            plans = (
                linear_plan.vector_plan(linear.width, linear.k, gated),
                linear_plan.rows_plan(m, linear.width, linear.k, gated),
            )
            took = [graph_us(linear.call(m, gpu_linear.small_batch_linear, plan=plan), linear.copies) for plan in plans]
            cells.append(f"{m}: {took[0]:5.1f}/{took[1]:5.1f}")
        print(f"  {name:18s} {linear.bytes / BANDWIDTH * 1e6:5.2f} | " + "   ".join(cells), flush=True)


@torch.inference_mode()
def main() -> None:
    torch.manual_seed(0)
    started = time.monotonic()
    check()
    times()
    kinds()
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
