"""Writes the folder that is served: without the codec's encoder, which preset voices do not need.

python pack.py MODEL VOICE
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from codec import SHAPE

TOKENIZER = ("vocab.json", "merges.txt", "tokenizer_config.json")
CODEC = "speech_tokenizer/model.safetensors"


def pack(model: Path, voice: Path) -> int:
    """Writes `voice` from `model`; returns its size in bytes."""
    shutil.copytree(SHAPE, voice, dirs_exist_ok=True)
    for name in (*TOKENIZER, "model.safetensors"):
        shutil.copy(model / name, voice)
    decoder = {name: value for name, value in load_file(model / CODEC).items() if name.startswith("decoder.")}
    save_file(decoder, voice / CODEC, metadata={"format": "pt"})
    shutil.copy(Path(__file__).parent / "CARD.md", voice / "README.md")
    return sum(path.stat().st_size for path in voice.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("voice", type=Path)
    options = parser.parse_args()
    print(f"{pack(options.model, options.voice) / 1e6:.1f} MB in {options.voice}")


if __name__ == "__main__":
    main()
