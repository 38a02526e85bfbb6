"""Writes the mean of two models of one line of training: it often speaks better than either.

    python mean.py BEFORE AFTER OUT --talker 0.88 --codec 0.5

The shares are those of AFTER. Both must have the same codes: only then does a mean of their decoders fit both talkers.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

CODEC = "speech_tokenizer"
WEIGHTS = "model.safetensors"
FIXED = "codebook"
"""What both must have in common."""


def mean(before: dict[str, Tensor], after: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Returns weights between two checkpoints; numbers that are no weights are those of the second."""
    if before.keys() != after.keys():
        raise ValueError(f"other weights: {sorted(before.keys() ^ after.keys())[:3]}")

    def between(name: str) -> Tensor:
        old, new = before[name], after[name]
        return torch.lerp(old.float(), new.float(), share).to(new.dtype) if new.is_floating_point() else new

    return {name: between(name).contiguous() for name in after}


def write_mean(before: Path, after: Path, out: Path, talker: float, codec: float) -> None:
    shutil.copytree(after, out, dirs_exist_ok=True)
    for part, share in (("", talker), (CODEC, codec)):
        old, new = (load_file(folder / part / WEIGHTS) for folder in (before, after))
        changed = [name for name in new if part == CODEC and FIXED in name and not torch.equal(old[name], new[name])]
        if changed:
            raise ValueError(f"the codes are others: {changed[0]}")
        save_file(mean(old, new, share), out / part / WEIGHTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--talker", type=float, default=0.5)
    parser.add_argument("--codec", type=float, default=0.5)
    options = parser.parse_args()
    write_mean(options.before, options.after, options.out, options.talker, options.codec)


if __name__ == "__main__":
    main()
