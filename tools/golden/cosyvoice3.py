"""Pack what upstream made of CosyVoice3's language model and front end, small enough to be committed.

    python tools/golden/cosyvoice3.py SOURCE

SOURCE holds a tiny checkpoint in the published layout and upstream's outputs: `checkpoint/`, `cases.json`, and one
`NAME.npz` per case. Rows of tables that no case uses are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

TARGET = Path(__file__).parents[2] / "tests" / "golden" / "cosyvoice3"
TEXTS = ("cosyvoice3.yaml", *(f"CosyVoice-BlankEN/{name}" for name in ("config.json", "vocab.json", "merges.txt")))
TEXTS += ("CosyVoice-BlankEN/tokenizer_config.json",)
ROWS = 12  # of forward_logits


def columns(codes: int) -> np.ndarray:
    """Logits that are kept: speech tokens, and special ones up to the fill token."""
    return np.r_[0 : codes + 6]


def pack_llm(folder: Path, used: set[int], codes: int) -> tuple[dict[str, np.ndarray], list]:
    tensors = torch.load(folder / "llm.pt", weights_only=True)
    stored, values = [], []
    words = "llm.model.model.embed_tokens.weight"
    for name, tensor in tensors.items():
        if name == "llm.model.lm_head.weight":
            continue
        rows = sorted(used) if name == words else None
        if name in ("speech_embedding.weight", "llm_decoder.weight"):
            rows = list(range(codes + 6))
        stored.append([name, list(tensor.shape), rows])
        values.append((tensor if rows is None else tensor[rows]).contiguous().numpy().ravel())
    planes = np.concatenate(values).view(np.uint8).reshape(-1, 4).T  # bytes of one kind compress better together
    return {f"llm_{i}": plane for i, plane in enumerate(planes)}, stored


def ids_of(rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Which rows of the joined tables these are."""
    return np.array([int(np.flatnonzero((table == row).all(1))[0]) for row in rows], np.int16)


def main(source: Path) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    checkpoint = source / "checkpoint"
    cases = json.loads((source / "cases.json").read_text("utf-8"))
    codes = cases["special"]["speech_token_size"]
    tensors = torch.load(checkpoint / "llm.pt", weights_only=True)
    table = torch.cat((tensors["llm.model.model.embed_tokens.weight"], tensors["speech_embedding.weight"])).numpy()
    arrays: dict[str, np.ndarray] = {}
    used: set[int] = set()
    keep = columns(codes)
    for kind, names in (("llm", cases["llm"]), ("bistream", cases["bistream"])):
        for name in names:
            found = dict(np.load(source / f"{kind}-{name}.npz"))
            at = f"{kind}-{name}"
            used |= {*found["text_ids"].tolist(), *found["prompt_text_ids"].tolist()}
            for key in ("text_ids", "prompt_text_ids", "prompt_speech_token", "piece_lens", "forward_lens"):
                if key in found:
                    arrays[f"{at}/{key}"] = found[key].astype(np.int16)
            for key in ("forced_tokens", "greedy_tokens", "walk_tokens", "spoken_tokens"):
                if key in found:
                    arrays[f"{at}/{key}"] = found[key].astype(np.int16)
            if kind == "llm":
                arrays[f"{at}/lm_input"] = ids_of(found["lm_input"], table)
                arrays[f"{at}/forced_logits"] = found["forced_logits"][::4][:, keep]
            else:
                arrays[f"{at}/forward_ids"] = ids_of(found["forward_rows"], table)
                arrays[f"{at}/forward_logits"] = found["forward_logits"][:: max(1, len(found["forward_lens"]) // ROWS)][
                    :, keep
                ]
    for file in ("frontend", "reference", "sampling"):
        arrays |= {f"{file}/{key}": array for key, array in np.load(source / f"{file}.npz").items()}
    planes, stored = pack_llm(checkpoint, used, codes)
    texts = {f"text/{name}": np.frombuffer((checkpoint / name).read_bytes(), np.uint8) for name in TEXTS}
    np.savez_compressed(TARGET / "language_model.npz", **planes, **texts, **arrays)
    speakers = torch.load(checkpoint / "spk2info.pt", weights_only=True)
    torch.save(speakers, TARGET / "spk2info.pt")
    index = {"llm": cases["llm"], "bistream": cases["bistream"], "special": cases["special"], "tensors": stored}
    (TARGET / "index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
