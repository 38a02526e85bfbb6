"""What upstream was asked for in each golden case, as requests of ours; and our parts, run as the engine runs them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rhapsode.checking.request import checked
from rhapsode.checkpoints.folder import read_config
from rhapsode.config import Limits
from rhapsode.device.slots import Rows
from rhapsode.models.base import StageContext, Step
from rhapsode.models.describe import describe
from rhapsode.models.settings import parse_settings
from rhapsode.models.voxcpm2.codec import VoxCodec
from rhapsode.models.voxcpm2.encode import VoxEncode
from rhapsode.models.voxcpm2.prepare import VoxPrepare
from rhapsode.models.voxcpm2.prompt import VoxPrompt
from rhapsode.models.voxcpm2.spec import SPEC
from rhapsode.models.voxcpm2.talker import VoxTalker
from rhapsode.types import Clip, ModelInfo, Reference, SpeechRequest, Voice
from tiny.talking import TalkerHarness
from tiny.voxcpm2 import SAMPLE_RATE, Tiny, noise, reference_audio

GOLDEN = Path(__file__).parents[2] / "golden" / "voxcpm2"
INDEX: dict[str, Any] = json.loads((GOLDEN / "index.json").read_text("utf-8"))
CASES: dict[str, Any] = INDEX["cases"]


def golden(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{name}.npz"))


def clip(samples: int, rate: int = SAMPLE_RATE, seed: int = 0) -> Clip:
    return Clip(reference_audio(samples, seed)[None], rate)


def voice_of(case: dict[str, Any]) -> tuple[Voice, str | None]:
    """The voice of a golden case, and `cloning`: one clip is used in one or two ways, two clips have a place each."""
    rate = case["rate"]
    voice = Voice.cloned(clip(case["reference"], rate)) if case["reference"] else Voice()
    if not case["prompt"]:
        return voice, None
    prompt = Reference(clip(case["prompt"], rate, case["prompt_seed"]), case["prompt_text"])
    if voice.references and (case["reference"], 0) != (case["prompt"], case["prompt_seed"]):
        return replace(voice, continued=prompt), None
    return Voice(references=(prompt,)), "both" if voice.references else "continuation"


def request(case: dict[str, Any], **wishes: Any) -> SpeechRequest:
    """The request of a golden case; what `wishes` has comes on top."""
    voice, cloning = voice_of(case)
    options = case["ask"] | ({"cloning": cloning} if cloning else {})
    text, instructions = case["text"].removeprefix(case["before"]), case["before"].strip("()") or None
    return SpeechRequest(text, voice, instructions=instructions, options=options, **wishes)


@dataclass
class Family:
    """One checkpoint's stages."""

    prepare: VoxPrepare
    encode: VoxEncode
    talker: VoxTalker
    codec: VoxCodec
    info: ModelInfo

    @classmethod
    def open(cls, folder: Path, dtype: str = "float32", **settings: Any) -> "Family":
        config = read_config(folder)
        context = StageContext(SPEC, folder, config, "cpu", dtype, settings=parse_settings(SPEC, settings))
        info = describe(SPEC, folder, config)
        return cls(VoxPrepare(context), VoxEncode(context), VoxTalker(context), VoxCodec(context), info)

    def prompt(self, asked: SpeechRequest) -> VoxPrompt:
        return self.encode([self.prepare(checked(asked, SPEC, self.info, Limits()))])[0]


class Stage(TalkerHarness):
    """The frame stage's way of calling a talker, without its thread; what it computes on the way is kept."""

    def __init__(self, talker: VoxTalker, slots: int = 4, page_size: int = 16, positions: int = 256) -> None:
        super().__init__(talker, slots, page_size, positions, talker.frame_dtype)
        self.base: list[Tensor] = []
        self.residual: list[Tensor] = []
        self.stop: list[Tensor] = []

    def join(self, slots: Sequence[int], prompts: Sequence[VoxPrompt], seed: int = 0, piece: int = 1000) -> None:
        super().join(slots, prompts, seeds=[seed + slot for slot in slots], piece=piece)

    def step(self, *slots: int) -> Step:
        talker = self.talker
        hidden, stop = talker.both_hidden, talker.net.stop

        def kept_hidden(rows: Rows, state: Any) -> tuple[Tensor, Tensor]:
            base, residual = hidden(rows, state)
            self.base.append(base)
            self.residual.append(residual)
            return base, residual

        def kept_stop(base: Tensor) -> Tensor:
            self.stop.append(stop(base))
            return self.stop[-1]

        talker.both_hidden, talker.net.stop = kept_hidden, kept_stop
        try:
            return super().step(*slots)
        finally:
            talker.both_hidden, talker.net.stop = hidden, stop


def inject(stage: Stage, noise_of: dict[int, np.ndarray]) -> None:
    """Patches of these slots begin as upstream's did: `[patches, feat, patch]` by slot."""

    def given(rows: Rows) -> Tensor:
        pairs = zip(rows.slots.tolist(), rows.steps.tolist(), strict=True)
        # A row that has ended runs along until the others have.
        return torch.stack(
            [torch.from_numpy(noise_of[slot][min(step, len(noise_of[slot]) - 1)].T) for slot, step in pairs]
        )

    stage.talker.noise = given


def case_noise(case: dict[str, Any]) -> np.ndarray:
    return noise(case["patches"], case["noise_seed"], Tiny(**case["recipe"]))
