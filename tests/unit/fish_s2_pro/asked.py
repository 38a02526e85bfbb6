"""The golden cases as requests of ours, their checkpoint, and our stages, run as the engine runs them."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from rhapsode.audio.decode import decode
from rhapsode.checking.request import checked
from rhapsode.checkpoints.folder import read_config
from rhapsode.config import Limits
from rhapsode.models.base import StageContext
from rhapsode.models.fish_s2_pro.codec import FishCodec
from rhapsode.models.fish_s2_pro.encode import FishEncode
from rhapsode.models.fish_s2_pro.prepare import FishPrepare, NextTurns
from rhapsode.models.fish_s2_pro.prompt import FishPrompt
from rhapsode.models.fish_s2_pro.spec import SPEC
from rhapsode.models.fish_s2_pro.talker import FishTalker
from rhapsode.types import Clip, Reference, SpeechRequest, Voice
from tiny import weights

GOLDEN = Path(__file__).parents[2] / "golden" / "fish_s2_pro"
FULL = os.environ.get("FISH_S2_PRO_GOLDEN")
"""A folder with all that upstream made, and the checkpoint with its encoder."""
INDEX: dict[str, Any] = json.loads((GOLDEN / "index.json").read_text("utf-8"))
CASES: dict[str, Any] = {case["name"]: case for case in INDEX["cases"] if case.get("kind") != "codec"}
FIRST_AUDIO = 300  # samples of a stand-in for reference 0 of a case


def golden(name: str) -> dict[str, np.ndarray]:
    folder = Path(FULL) if FULL else GOLDEN
    return {key: array.astype(np.int64) if array.dtype == np.int16 else array for key, array in _load(folder, name)}


def _load(folder: Path, name: str) -> Iterator[tuple[str, np.ndarray]]:
    yield from np.load(folder / f"{name}.npz").items()


def unpack(folder: Path) -> Path:
    """Writes the golden checkpoint; the values of the encoder half are made from seeds."""
    packed = np.load(GOLDEN / "checkpoint.npz")
    planes = torch.from_numpy(np.stack((packed["low"], packed["high"]), axis=1).copy()).view(torch.int16).flatten()
    files: dict[str, dict[str, torch.Tensor]] = {}
    at = 0
    for file, name, dtype, shape in INDEX["tensors"]["stored"]:
        size = int(np.prod(shape))
        values = planes[at : at + size].view(getattr(torch, dtype)).reshape(shape)
        files.setdefault(file, {})[name] = values.clone()
        at += size
    for file, name, dtype, shape in INDEX["tensors"]["absent"]:
        made = torch.from_numpy(weights.uniform(name, tuple(shape), 0.1, 0.3, 0))
        files[file][name] = made.to(getattr(torch, dtype))
    codec = files.pop("codec.pth")
    stale = {
        "quantizer.post_module.freqs_cis": torch.zeros(4, 32, 2),
        "quantizer.post_module.causal_mask": torch.ones(4),
    }
    torch.save(codec | stale, folder / "codec.pth")
    for file, tensors in files.items():
        save_file(tensors, folder / file)
    for name in INDEX["tensors"]["texts"]:
        (folder / f"{name}.json").write_bytes(packed[name].tobytes())
    return folder


def request(name: str, **wishes: Any) -> SpeechRequest:
    """The request of a golden case; without the full goldens, references are stand-ins of different lengths."""
    case = CASES[name]
    references = []
    for i, reference in enumerate(case.get("references", ())):
        audio = (
            decode((Path(FULL) / reference["audio"]).read_bytes())
            if FULL
            else Clip(np.ones((1, FIRST_AUDIO + i), np.float32), SPEC.sample_rate)
        )
        references.append(Reference(audio, reference["text"]))
    options = {"chunk_length": case.get("options", {}).get("chunk_length", 300)}
    return SpeechRequest(case["text"], Voice(references=tuple(references)), options=options, **wishes)


@dataclass
class Family:
    """One checkpoint's stages."""

    prepare: FishPrepare
    encode: FishEncode
    talker: FishTalker
    codec: FishCodec

    @classmethod
    def open(cls, folder: Path, dtype: str = "float32") -> "Family":
        context = StageContext(SPEC, folder, read_config(folder), "cpu", dtype)
        return cls(FishPrepare(context), FishEncode(context), FishTalker(context), FishCodec(context))

    def know(self, name: str) -> None:
        """Lets references of a case have upstream's codes, where the encoder is not upstream's."""
        if not FULL:
            codes = golden(name)
            self.encode._codes = lambda clip: codes[f"reference_codes_{clip.samples.shape[1] - FIRST_AUDIO}"]

    def prompts(self, asked: SpeechRequest) -> Iterator[FishPrompt]:
        """The prompts of a request, one after the other."""
        work: SpeechRequest | NextTurns | None = checked(asked, SPEC, SPEC.info(), Limits())
        while work is not None:
            draft = self.prepare(work)
            yield self.encode([draft])[0]
            work = draft.following() if draft.following else None
