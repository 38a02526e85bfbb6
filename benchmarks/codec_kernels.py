"""Compares the codec's kernels with plain PyTorch on a GPU, at the published size with random weights.

    PYTHONPATH=src python benchmarks/codec_kernels.py [--dtype float16] [--overlap] [--no-plain] [--no-precision]
    PYTHONPATH=src python benchmarks/codec_kernels.py --tune 32x16 1x1

It prints the time of a graph replay by batch x frames, the time of each kernel, and the signal-to-noise ratio to
float64. `--tune` times the slowest convolutions with other tile sizes instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from rhapsode.checkpoints.random import randomize
from rhapsode.models.qwen3_tts.decoder import CodecDecoder, CodecDecoderConfig
from rhapsode.nn import kernels
from rhapsode.nn.derived import derive

PUBLISHED = CodecDecoderConfig(
    codebook_dim=512, codebook_size=2048, latent_dim=1024, hidden_size=512, intermediate_size=1024,
    num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=16, head_dim=64, sliding_window=72,
)  # fmt: skip
SIZES = ((1, 1), (1, 4), (1, 16), (8, 4), (32, 1), (32, 4), (32, 16), (64, 16), (128, 8))
GFLOP_PER_FRAME = 4.93
SLOTS = 128
FRAME_S = 0.08


def make(dtype: torch.dtype, device: str, gain: float = 0.5) -> CodecDecoder:
    """Returns a decoder with the same weights for every `dtype`: bfloat16 holds them exactly. The audio does not clip.

    `gain` scales the output of the residual units. It decides how much of an early rounding error is left in the end,
    so noise is reported for several gains.
    """
    with torch.device("meta"):
        net = CodecDecoder(PUBLISHED)
    randomize(net, device=device, dtype=torch.float32)
    for name, parameter in net.named_parameters():
        if name.endswith(("alpha", "beta")):
            parameter.data.normal_(0.0, 0.3, generator=torch.Generator(device).manual_seed(len(name)))
        elif ".conv2.conv.weight" in name:
            parameter.data *= gain
        elif name == "decoder.6.conv.weight":
            parameter.data *= 0.01
    for module in net.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, torch.nn.Parameter(parameter.data.to(torch.bfloat16).to(dtype), requires_grad=False))
        for name, held in module.named_buffers(recurse=False):
            if "inv_freq" not in name and held is not None and held.is_floating_point():
                setattr(module, name, held.to(dtype))
    derive(net)
    if kernels.on(net.pre_conv.conv.weight):
        from rhapsode.models.qwen3_tts.fused import fuse

        fuse(net)
    return net.eval()


def decode(net: CodecDecoder, codes: Tensor, mode: kernels.Mode, chunk: int = 4) -> Tensor:
    state, slots = net.state(SLOTS), torch.arange(len(codes), device=codes.device)
    with kernels.use(mode):
        return torch.cat([net(piece, slots, state) for piece in codes.split(chunk, dim=1)], dim=-1).double()


def snr_db(found: Tensor, expected: Tensor) -> float:
    return float(10 * torch.log10(expected.square().sum() / (found - expected).square().sum()))


def precision(device: str) -> None:
    """Prints the noise of each number format. All have the same weights: only the arithmetic differs."""
    codes = torch.randint(0, 2048, (2, 24, 16), device=device, generator=torch.Generator(device).manual_seed(1))
    print(
        "SNR to float64, dB     fp32 plain  tf32 plain | fp16 plain  fused | bf16 plain  fused | recut  worst fp16 bf16"
    )
    for gain in (1.0, 0.5, 0.2):
        _tf32(False)
        expected = decode(make(torch.float64, device, gain), codes, "off")
        net = make(torch.float32, device, gain)
        found = [snr_db(decode(net, codes, "off"), expected)]
        _tf32(True)
        found.append(snr_db(decode(net, codes, "off"), expected))
        worst, recut = [], 0.0
        for dtype in (torch.float16, torch.bfloat16):
            net = make(dtype, device, gain)
            fused = decode(net, codes, "auto")
            found += [snr_db(decode(net, codes, "off"), expected), snr_db(fused, expected)]
            worst.append(float((fused - expected).abs().max() / expected.abs().max()))
            if dtype == torch.float16:
                recut = snr_db(decode(net, codes, "auto", chunk=16), fused)
        a, b, c, d, e, f = (f"{value:6.1f}" for value in found)
        rms = float(expected.square().mean().sqrt())
        print(f"  gain {gain} (rms {rms:.3f})      {a}      {b} |     {c} {d} |     {e} {f} | {recut:6.1f} "
              f" {worst[0]:.1e} {worst[1]:.1e}", flush=True)  # fmt: skip


def _tf32(on: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on


def graph_ms(function: Callable[[], Tensor], replays: int) -> float:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    graph.replay()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(replays):
        graph.replay()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / replays


def speed(net: CodecDecoder, device: str, plain: bool) -> None:
    state = net.state(SLOTS)
    print("    B x n  plain ms  fused ms  ratio x real time  TFLOP/s  compile s")
    for batch, frames in SIZES:
        slots = torch.randperm(SLOTS, device=device)[:batch]
        codes = torch.randint(0, 2048, (batch, frames, 16), device=device)

        def run(slots: Tensor = slots, codes: Tensor = codes) -> Tensor:
            return net(codes, slots, state)

        before = float("nan")
        if plain:
            with kernels.use("off"):
                before = graph_ms(run, 3)
        began = time.perf_counter()
        run()
        torch.cuda.synchronize()
        compiled = time.perf_counter() - began
        after = graph_ms(run, 20)
        total = batch * frames
        print(
            f"{batch:4d} x {frames:2d} {before:9.3f} {after:9.3f} {before / after:6.2f}"
            f" {total * FRAME_S / after * 1e3:11.0f} {total * GFLOP_PER_FRAME / after:8.1f}  {compiled:.1f}",
            flush=True,
        )


def labels() -> list[str]:
    """Returns the names of a decode's launches, in order."""
    layer = ["qkv", "attention", "o_proj", "gate_up", "down_proj"]
    names = ["tails", "codebooks", "pre_conv", "input_proj", *layer * 8, "output_proj", "tails", "tails"]
    names += ["up k2", "dw + norm", "pw1 + gelu", "pw2"] * 2 + ["begin 1024-1536 k7"]
    for inputs in (1536, 768, 384, 192):
        width = inputs // 2
        pair = [f"unit {width}"] if width <= 128 else [f"unit {width} k7", f"unit {width} k1"]
        names += [f"up {inputs}-{width}", *pair * 3]
    return [*names, "samples", "tails"]


def breakdown(net: CodecDecoder, device: str, batch: int, frames: int) -> None:
    state, slots = net.state(SLOTS), torch.arange(batch, device=device)
    codes = torch.randint(0, 2048, (batch, frames, 16), device=device)
    net(codes, slots, state)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        net(codes, slots, state)
        torch.cuda.synchronize()
    launches = sorted((e for e in seen.events() if e.device_time > 0), key=lambda e: e.time_range.start)
    named = labels() if len(labels()) == len(launches) else [event.name[:40] for event in launches]
    times: dict[str, list[float]] = {}
    for name, event in zip(named, launches, strict=True):
        times.setdefault(name, []).append(event.device_time)
    total = sum(map(sum, times.values()))
    print(f"B{batch} n{frames}: {len(launches)} launches (of {len(labels())}), {total / 1e3:.3f} ms in kernels; in us:")
    rows = sorted(times.items(), key=lambda item: -sum(item[1]))
    for i in range(0, len(rows), 4):
        print("   " + " | ".join(f"{name:18s} {len(each):3d} x {sum(each):8.1f}" for name, each in rows[i : i + 4]))


def warm(dtype: str, sizes: tuple[tuple[int, int], ...]) -> None:
    """Compiles kernels for all sizes in parallel, one process each: the compiler's cache is on disk."""
    began = time.perf_counter()
    command = [sys.executable, __file__, "--dtype", dtype, "--only-compile"]
    running = [subprocess.Popen([*command, f"{batch}x{frames}"]) for batch, frames in sizes]
    for process in running:
        process.wait()
    print(f"compiled in {time.perf_counter() - began:.1f} s ({os.cpu_count()} cores)", flush=True)


def tune(device: str, batch: int, frames: int) -> None:
    """Times the slowest convolutions with each tile size that fits them."""
    from rhapsode.nn.kernels.gpu.conv import ConvWeights, Tile, conv, pick
    from rhapsode.nn.kernels.snake import SnakeWeights

    def timed(inputs: int, width: int, taps: int, length: int, residual: bool, tile: Tile) -> float:
        def kind(*shape: int) -> Tensor:
            return torch.randn(*shape, device=device, dtype=torch.bfloat16)

        weights = ConvWeights(kind(width, taps * inputs) * 0.02, torch.zeros(width, device=device), taps, 3)
        x, out = kind(batch, length + (taps - 1) * 3, inputs), kind(batch, length, width)
        snake = SnakeWeights(torch.ones(width, device=device), torch.ones(width, device=device))
        return graph_ms(
            lambda: conv(x, weights, act=out, snake=snake, residual=out if residual else None, tile=tile) or out, 10
        )

    shapes = (
        ("conv0", 1024, 1536, 7, 4), ("up1", 1536, 6144, 2, 4), ("768", 768, 768, 7, 32), ("768 1x1", 768, 768, 1, 32),
        ("up2", 768, 1920, 2, 32), ("384", 384, 384, 7, 160), ("384 1x1", 384, 384, 1, 160), ("up3", 384, 768, 2, 160),
        ("192", 192, 192, 7, 640), ("192 1x1", 192, 192, 1, 640), ("up4", 192, 288, 2, 640),
    )  # fmt: skip
    tiles = [
        Tile(128, 128, 64, 8, 3), Tile(128, 128, 64, 4, 3), Tile(128, 256, 64, 8, 3), Tile(128, 64, 64, 4, 3),
        Tile(256, 64, 64, 8, 3), Tile(64, 128, 64, 4, 3), Tile(64, 64, 64, 4, 4), Tile(32, 64, 64, 4, 4),
    ]  # fmt: skip
    if batch * frames <= 16:
        tiles = [
            Tile(64, 64, 64, 4, 4), Tile(32, 64, 64, 4, 4), Tile(32, 32, 128, 4, 4), Tile(32, 16, 256, 4, 3),
            Tile(16, 64, 256, 4, 3), Tile(16, 32, 128, 4, 4), Tile(16, 32, 256, 4, 3), Tile(16, 16, 256, 4, 3),
            Tile(16, 16, 256, 2, 4), Tile(16, 32, 256, 8, 3),
        ]  # fmt: skip
    for name, inputs, width, taps, per_frame in shapes:
        length = per_frame * frames
        flop = 2 * batch * length * inputs * width * taps
        usable = [tile for tile in tiles if tile.rows < 4 * batch * length and inputs % tile.depth == 0]
        found = sorted((timed(inputs, width, taps, length, taps == 1, tile), str(tile)) for tile in usable)
        chosen = pick(batch * length, width, inputs, taps)
        print(f"{name:8s} M {batch * length} N {width} K {inputs * taps}; now {chosen}")
        for ms, tile in found[:4]:
            print(f"    {ms * 1e3:8.1f} us {flop / ms / 1e9:6.0f} TFLOP/s {tile}", flush=True)


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tune", nargs="*", metavar="BxN", help="batch x frames to tune for")
    parser.add_argument("--overlap", action="store_true", help="programmatic dependent launch")
    parser.add_argument("--no-plain", action="store_true")
    parser.add_argument("--no-precision", action="store_true")
    parser.add_argument("--only-compile", metavar="BxN", help=argparse.SUPPRESS)
    given = parser.parse_args()
    dtype = getattr(torch, given.dtype)
    _tf32(True)
    if given.tune is not None:
        for size in given.tune or ["32x16"]:
            tune(given.device, *map(int, size.split("x")))
        return
    if given.only_compile:
        batch, frames = map(int, given.only_compile.split("x"))
        net = make(dtype, given.device)
        net(torch.zeros(batch, frames, 16, dtype=torch.int64, device=given.device),
            torch.arange(batch, device=given.device), net.state(SLOTS))  # fmt: skip
        return
    warm(given.dtype, SIZES)
    from rhapsode.nn.kernels.gpu.launch import overlap

    with overlap(given.overlap):
        net = make(dtype, given.device)
        speed(net, given.device, not given.no_plain)
        for batch, frames in ((1, 1), (32, 4), (32, 16)):
            breakdown(net, given.device, batch, frames)
        if not given.no_precision:
            precision(given.device)


if __name__ == "__main__":
    main()
