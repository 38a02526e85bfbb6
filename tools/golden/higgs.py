"""Pack a selection of upstream's outputs for Higgs audio v2 and Higgs TTS v3, small enough to be committed.

    python tools/golden/higgs.py SOURCE

SOURCE holds `higgs-v2` and `higgs-v3`, each with a tiny checkpoint in the published layout, `cases.json`, and one
`NAME.npz` per case with what upstream made of it. Kept are the talkers, whose values no seed gives, and what upstream's
talkers computed. The codecs have a script of their own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

TARGET = Path(__file__).parents[2] / "tests" / "golden"
CODEC, UNUSED = "tied.embedding.modality_embeddings.0.model.", "text_lm_head."
TEXTS = (
    "config.json", "generation_config.json", "processor_config.json", "tokenizer.json", "tokenizer_config.json",
    "audio_tokenizer/config.json",
)  # fmt: skip
ROWS = 4  # of forced logits
INTEGERS = ("prompt_ids", "prompt_rows", "forced_rows", "greedy_rows", "ras_rows", "frames")
FLOATS = ("sample_logits", "sample_probs")


def pack_talker(folder: Path, target: Path) -> list[list]:
    """Write all float32 values as four planes of bytes, which compress better; return names and shapes."""
    tensors = load_file(folder / "model.safetensors")
    kept = {name: tensors[name] for name in sorted(tensors) if not name.startswith((CODEC, UNUSED))}
    values = np.concatenate([tensor.astype(np.float32).ravel() for tensor in kept.values()])
    planes = dict(zip("abcd", values.view(np.uint8).reshape(-1, 4).T, strict=True))
    np.savez_compressed(target / "talker.npz", **planes)
    return [[name, list(tensor.shape)] for name, tensor in kept.items()]


def select(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    found = {name: arrays[name].astype(np.int16) for name in INTEGERS if name in arrays}
    found |= {name: codes.astype(np.int16) for name, codes in arrays.items() if name.endswith("_codes")}
    found |= {name: arrays[name] for name in FLOATS if name in arrays}
    found["forced_rows"] = found["forced_rows"][: ROWS - 1]
    return found | {"forced_logits": arrays["forced_logits"][:ROWS]}


def pack(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    index = json.loads((source / "cases.json").read_text("utf-8"))
    checkpoint = source / "checkpoint"
    index["tensors"] = pack_talker(checkpoint, target)
    index["texts"] = {name: json.loads((checkpoint / name).read_text("utf-8")) for name in TEXTS
                      if (checkpoint / name).is_file()}  # fmt: skip
    if "checkpoint_original" in index:
        index["original_config"] = json.loads((source / index["checkpoint_original"] / "config.json").read_text())
        index["codec_config"] = json.loads((source / "codec" / "config.json").read_text())
    kept = {}
    for case in index["cases"]:
        arrays = select(dict(np.load(source / case["expected"])))
        kept |= {f"{case['name']}/{name}": array for name, array in arrays.items()}
    machine = np.load(source / "codec.npz")
    kept |= {f"machine/{name}": machine[name].astype(np.int16) for name in ("argmax", "rows") if name in machine}
    np.savez_compressed(target / "cases.npz", **kept)
    (target / "index.json").write_text(json.dumps(index, separators=(",", ":")), "utf-8")


if __name__ == "__main__":
    for generation in ("v2", "v3"):
        pack(Path(sys.argv[1]) / f"higgs-{generation}", TARGET / f"higgs_{generation}")
