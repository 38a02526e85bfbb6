"""What upstream was asked for in each golden case, as requests of ours; and our parts, run as the engine runs them."""

import json
import lzma
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor

from rhapsode.checking.request import checked
from rhapsode.config import Limits
from rhapsode.device.slots import Rows
from rhapsode.models.base import StageContext, Step
from rhapsode.models.registry import find
from rhapsode.models.settings import parse_settings
from rhapsode.models.voxtral_tts.codec import VoxtralCodec
from rhapsode.models.voxtral_tts.encode import VoxtralEncode
from rhapsode.models.voxtral_tts.prepare import VoxtralPrepare
from rhapsode.models.voxtral_tts.prompt import VoxtralPrompt
from rhapsode.models.voxtral_tts.spec import SPEC
from rhapsode.models.voxtral_tts.talker import VoxtralTalker
from rhapsode.types import Clip, ModelInfo, SpeechRequest, Voice
from tiny.talking import TalkerHarness
from tiny.voxtral_tts import SAMPLE_RATE, encoder_tensors, reference_audio

GOLDEN = Path(__file__).parents[2] / "golden" / "voxtral_tts"
INDEX: dict[str, Any] = json.loads((GOLDEN / "index.json").read_text("utf-8"))
CASES: dict[str, Any] = {case["name"]: case for case in INDEX["cases"]}
CLIP = Clip(reference_audio(700)[None], SAMPLE_RATE)


def golden(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{name}.npz"))


def write_golden(folder: Path) -> Path:
    """Write the checkpoint upstream ran, with an encoder of ours: upstream's is too large to commit."""
    (folder / "voice_embedding").mkdir(parents=True)
    for name in ("params.json", "tekken.json"):
        shutil.copyfile(GOLDEN / name, folder / name)
    packed = (GOLDEN / "consolidated.safetensors.xz").read_bytes()
    (folder / "consolidated.safetensors").write_bytes(lzma.decompress(packed))
    for name, rows in np.load(GOLDEN / "voices.npz").items():
        torch.save(torch.from_numpy(rows).view(torch.bfloat16), folder / "voice_embedding" / f"{name}.pt")
    settings = json.loads((GOLDEN / "params.json").read_text())
    save_file(dict(encoder_tensors(settings, 0)), folder / "encoder.safetensors")
    return folder


def request(case: dict[str, Any], **wishes: Any) -> SpeechRequest:
    """The request of a golden case."""
    options = {"cfg_alpha": case["cfg_alpha"]} if "cfg_alpha" in case else {}
    voice = Voice.cloned(CLIP) if "reference" in case else Voice(name=case["voice"])
    return SpeechRequest(case["text"], voice, options=options, **wishes)


@dataclass
class Family:
    """One checkpoint's stages."""

    prepare: VoxtralPrepare
    encode: VoxtralEncode
    talker: VoxtralTalker
    codec: VoxtralCodec
    info: ModelInfo

    @classmethod
    def open(cls, folder: Path, dtype: str = "float32", **settings: Any) -> "Family":
        found = find(str(folder))
        context = StageContext(SPEC, folder, found.config, "cpu", dtype, settings=parse_settings(SPEC, settings))
        return cls(
            VoxtralPrepare(context), VoxtralEncode(context), VoxtralTalker(context), VoxtralCodec(context), found.info()
        )

    def prompt(self, asked: SpeechRequest) -> VoxtralPrompt:
        return self.encode([self.prepare(checked(asked, SPEC, self.info, Limits()))])[0]

    def golden_prompt(self, name: str) -> VoxtralPrompt:
        """The prompt of a golden case; a reference has the codes that upstream's encoder gave it."""
        if "reference" not in CASES[name]:
            return self.prompt(request(CASES[name]))
        codes = self.encode._codes
        self.encode._codes = lambda samples: golden(name)["reference_codes"].astype(np.int64)
        try:
            return self.prompt(request(CASES[name]))
        finally:
            self.encode._codes = codes


class Stage(TalkerHarness):
    """The frame stage's way of calling a talker, without its thread; hidden states and logits are kept."""

    def __init__(self, talker: VoxtralTalker, **sizes: Any) -> None:
        super().__init__(talker, **sizes)
        self.hidden: list[Tensor] = []
        self.logits: list[Tensor] = []

    def step(self, *slots: int, noise: Tensor | None = None, force: Tensor | None = None) -> Step:
        """One frame; `noise [B, acoustic]` is injected, and `force [B, books]` is fed back instead of the frame."""
        talker = self.talker
        logits, noise_of = talker.net.semantic_logits, talker.noise

        def kept(hidden: Tensor) -> Tensor:
            self.hidden.append(hidden)
            self.logits.append(logits(hidden))
            return self.logits[-1]

        def given(rows: Rows) -> Tensor:
            return noise_of(rows) if noise is None else noise

        talker.net.semantic_logits, talker.noise = kept, given
        try:
            step = super().step(*slots)
        finally:
            talker.net.semantic_logits = logits
            del talker.noise
        if force is not None:
            self.state.next[torch.tensor(slots)] = talker.net.frame(force)
        return step
