"""Measures upstream's VoxCPM2 at a given size with random weights, to compare with `rhapsode bench engine`.

    python benchmarks/voxcpm2_upstream.py --packages FOLDER [--device cuda] [--compile] [--patches 52]

FOLDER holds the packages `voxcpm` (2.0.3) and `einops`, as pip installs them. What upstream imports but does not use
here (librosa, transformers, tqdm ...) is replaced if it is missing. Upstream runs one request at a time: the prompt,
then every patch with ten Euler steps and its audio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHAPE = ROOT / "src" / "rhapsode" / "bench" / "shapes" / "voxcpm2" / "config.json"
TEXT_TOKENS = 31  # what a text of this length takes


class FixedTokenizer:
    """Makes the same number of tokens of any text."""

    vocab: dict[str, int] = {}  # noqa: RUF012

    def tokenize(self, text: str) -> list[str]:
        return ["a"] * TEXT_TOKENS

    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]:
        return list(range(200, 200 + len(tokens)))


def build(config: dict[str, Any], device: str, compiled: bool) -> Any:
    import torch
    from voxcpm.model.voxcpm2 import VoxCPM2Model, VoxCPMConfig
    from voxcpm.modules.audiovae import AudioVAEV2

    parsed = VoxCPMConfig(**config | {"device": device})
    torch.manual_seed(0)
    with torch.device(device):
        model = VoxCPM2Model(parsed, FixedTokenizer(), AudioVAEV2(config=parsed.audio_vae_config), device=device)
    model = model.to(getattr(torch, parsed.dtype)).eval()
    model.audio_vae = model.audio_vae.to(torch.float32)
    return model.to(device).optimize(disable=not compiled)


def speak(model: Any, patches: int) -> tuple[float, float]:
    """Returns seconds until the audio of the first patch, and of all patches."""
    import torch

    started_s = time.perf_counter()
    first_s = 0.0
    # Random weights stop at any moment: a fixed length makes runs comparable.
    for chunk in model.generate_streaming(target_text="some words", min_len=patches, max_len=patches):
        chunk.cpu()
        first_s = first_s or time.perf_counter() - started_s
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return first_s, time.perf_counter() - started_s


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--packages", type=Path, required=True)
    arguments.add_argument("--config", type=Path, default=SHAPE)
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--compile", action="store_true", help="with torch.compile, upstream's default on a GPU")
    arguments.add_argument("--patches", type=int, default=52)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    sys.path[:0] = [str(given.packages), str(ROOT / "tools" / "golden")]
    import stubs

    stubs.install()
    model = build(json.loads(given.config.read_text()), given.device, given.compile)
    speak(model, 4)
    times = [speak(model, given.patches) for _ in range(given.rounds)]
    audio_s = given.patches * model.patch_size * model._decode_chunk_size / model.sample_rate
    first_ms = statistics.median(first for first, _ in times) * 1e3
    wall_s = statistics.median(wall for _, wall in times)
    per_patch_ms = statistics.median((wall - first) / (given.patches - 1) for first, wall in times) * 1e3
    print(
        f"upstream, 1 request{', compiled' if given.compile else ''}: {per_patch_ms:.2f} ms per patch, "
        f"first audio {first_ms:.1f} ms, RTF {wall_s / audio_s:.4f}, {audio_s / wall_s:.1f} audio-s/s"
    )


if __name__ == "__main__":
    main()
