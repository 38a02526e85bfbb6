"""Writes the folder that is served.

    python pack.py MODEL VOICE
    python pack.py --back VOICE MODEL

With a speaker encoder in MODEL, the voice clones: it has that encoder and the codec's, too, and `clones` in its
`generation_config.json`. Without one it has neither, because presets need none. `x_vector_only_mode` there says that
clones are made from the speaker vector alone: no prompt that the talker learned from has a reference's codes.
`normalise` says that numbers must come as words, and `phonemes` that the talker learned phonemes; their lexicon is in
the package, not beside the weights. `--letters` leaves phonemes out. `--back` takes a voice apart again, so that
training goes on from it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

import shape
from codec import SHAPE

TOKENIZER = ("vocab.json", "merges.txt", "tokenizer_config.json")
CODEC = "speech_tokenizer/model.safetensors"
SPEAKER = "speaker/model.safetensors"


def pack(model: Path, voice: Path, phonemes: bool = True) -> int:
    """Writes `voice` from `model`; returns its size in bytes."""
    clones = (model / SPEAKER).is_file()
    shutil.copytree(SHAPE, voice, dirs_exist_ok=True)
    shape.write(voice, clones)
    generation = voice / "generation_config.json"
    wants = {"x_vector_only_mode": clones, "normalise": True, "phonemes": phonemes}
    declared = json.loads(generation.read_text()) | wants
    generation.write_text(json.dumps(declared, indent=1) + "\n")
    for name in TOKENIZER:
        shutil.copy(model / name, voice)
    weights = load_file(model / "model.safetensors") | (load_file(model / SPEAKER) if clones else {})
    save_file(weights, voice / "model.safetensors", metadata={"format": "pt"})
    codec = {name: value for name, value in load_file(model / CODEC).items() if clones or name.startswith("decoder.")}
    save_file(codec, voice / CODEC, metadata={"format": "pt"})
    shutil.copy(Path(__file__).parent / "CARD.md", voice / "README.md")
    return sum(path.stat().st_size for path in voice.rglob("*") if path.is_file())


def unpack(voice: Path, model: Path) -> None:
    """Writes `model` from `voice`, without what only training needs (discriminators)."""
    weights = load_file(voice / "model.safetensors")
    parts = {"model.safetensors": "talker.", SPEAKER: "speaker_encoder."}
    for name, prefix in parts.items():
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        part = {key: value for key, value in weights.items() if key.startswith(prefix)}
        save_file(part, model / name, metadata={"format": "pt"})
    for name in (*TOKENIZER, CODEC, "speech_tokenizer/config.json"):
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(voice / name, model / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, metavar="MODEL")
    parser.add_argument("result", type=Path, metavar="VOICE")
    parser.add_argument("--back", action="store_true", help="from VOICE to MODEL")
    parser.add_argument("--letters", action="store_true", help="the talker learned letters only")
    options = parser.parse_args()
    if options.back:
        unpack(options.source, options.result)
        return
    print(f"{pack(options.source, options.result, not options.letters) / 1e6:.1f} MB in {options.result}")


if __name__ == "__main__":
    main()
