"""Pack a selection of upstream's outputs for Fish S2-Pro, small enough to be committed.

    python tools/golden/fish_s2_pro.py SOURCE

SOURCE holds a tiny checkpoint in the published layout and what upstream made of it: `checkpoint/`, `cases.json`, and
one `NAME.npz` per case. Upstream's code is under a research licence and is not part of this repository: no script here
runs it. Kept are the talker and the decoder half of the codec, whose values no seed gives. The encoder half is left
out; tests of it against upstream run where `FISH_S2_PRO_GOLDEN` names SOURCE.
"""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

TARGET = Path(__file__).parents[2] / "tests" / "golden" / "fish_s2_pro"
ENCODER = ("encoder.*", "quantizer.downsample.*", "quantizer.pre_module.*", "*.in_proj.*")
STALE = ("*.freqs_cis", "*.causal_mask")
ROWS = 4  # of forced logits
LOGITS = ("plain", "emotion", "clone-two", "turns")
WAVEFORMS = ("plain", "clone-two", "clone-turns")
CODEC_FRAMES = 135  # more than the window of 128


def pack_checkpoint(folder: Path) -> dict:
    """Write all 16-bit values as two planes of bytes, which compress better; return names, types and shapes."""
    stored: list[list] = []
    absent: list[list] = []
    values: list[bytes] = []
    files = {f.name: load_file(f) for f in sorted(folder.glob("*.safetensors"))}
    files["codec.pth"] = torch.load(folder / "codec.pth", weights_only=True)
    for file, tensors in files.items():
        for name, tensor in tensors.items():
            if any(fnmatchcase(name, pattern) for pattern in STALE):
                continue
            entry = [file, name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
            if file == "codec.pth" and any(fnmatchcase(name, pattern) for pattern in ENCODER):
                absent.append(entry)
                continue
            stored.append(entry)
            values.append(tensor.contiguous().view(torch.int16).numpy().tobytes())
    low, high = np.frombuffer(b"".join(values), np.uint8).reshape(-1, 2).T
    texts = {f.stem: np.frombuffer(f.read_bytes(), np.uint8) for f in sorted(folder.glob("*.json"))}
    np.savez_compressed(TARGET / "checkpoint.npz", low=low, high=high, **texts)
    return {"stored": stored, "absent": absent, "texts": list(texts)}


def select(name: str, arrays: dict[str, np.ndarray], hop: int) -> dict[str, np.ndarray]:
    if name == "codec":
        return {"codes": arrays["codes"][:CODEC_FRAMES], "waveform": arrays["waveform"][: CODEC_FRAMES * hop]}
    found = {}
    for key, array in arrays.items():
        if key.startswith("probs"):
            if name == LOGITS[0]:
                found[key] = array
        elif key.startswith("waveform"):
            if name in WAVEFORMS:
                found[key] = array
        elif key in ("forced_codes", "slow_logits", "slow_hidden", "fast_logits"):
            if name in LOGITS:
                found[key] = array[:ROWS]
        else:
            found[key] = array
    return {key: array.astype(np.int16) if array.dtype == np.int64 else array for key, array in found.items()}


def main(source: Path) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    cases = json.loads((source / "cases.json").read_text("utf-8"))
    tensors = pack_checkpoint(source / "checkpoint")
    for case in cases["cases"]:
        chosen = select(case["name"], dict(np.load(source / f"{case['name']}.npz")), cases["hop"])
        np.savez_compressed(TARGET / f"{case['name']}.npz", **chosen)
    index = json.dumps({**cases, "tensors": tensors}, ensure_ascii=False, separators=(",", ":"))
    (TARGET / "index.json").write_text(index + "\n", encoding="utf-8")
    print(f"{sum(f.stat().st_size for f in TARGET.iterdir()) / 1e6:.2f} MB in {TARGET}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
