"""What upstream was asked for in each golden case, as requests of ours; and our parts, run as the engine runs them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rhapsode.checking.request import checked
from rhapsode.checkpoints.folder import read_config
from rhapsode.config import Limits
from rhapsode.models.base import StageContext
from rhapsode.models.describe import describe
from rhapsode.models.qwen3_tts.encode import QwenEncode
from rhapsode.models.qwen3_tts.prepare import QwenPrepare
from rhapsode.models.qwen3_tts.prompt import QwenPrompt
from rhapsode.models.qwen3_tts.spec import SPEC
from rhapsode.models.qwen3_tts.talker import QwenTalker
from rhapsode.types import Clip, ModelInfo, Sampling, SpeechRequest, Voice
from tiny.qwen3_tts import CODES, EOS, SAMPLE_RATE, reference_audio
from tiny.talking import TalkerHarness

GOLDEN = Path(__file__).parents[2] / "golden" / "qwen3_tts"
INDEX: dict[str, Any] = json.loads((GOLDEN / "index.json").read_text("utf-8"))
CASES: dict[str, Any] = INDEX["cases"]
SINGLES = [name for name, case in CASES.items() if "rows" not in case]
BATCHES = [name for name, case in CASES.items() if "rows" in case]
COLUMNS = [*range(CODES), EOS]
GREEDY = Sampling(temperature=0.0)
IGNORES_INSTRUCTIONS = {"custom_voice_proj_0b6"}


def golden(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{name}.npz"))


def request(case: dict[str, Any], **wishes: Any) -> SpeechRequest:
    """The request of a golden case; what `wishes` has comes on top."""
    ask, options = case["ask"], {"non_streaming_mode": case["non_streaming"]}
    voice = Voice(name=ask.get("speaker"))
    if "ref_samples" in ask:
        options["x_vector_only_mode"] = ask["x_vector_only_mode"]
        clip = Clip(reference_audio(ask["ref_samples"])[None], SAMPLE_RATE)
        voice = Voice.cloned(clip, ask["ref_text"])
    # Upstream ignores what a small checkpoint cannot do; here it is refused, and the rest of the request is the same.
    instructions = None if case["checkpoint"] in IGNORES_INSTRUCTIONS else ask.get("instruct") or None
    made = {"language": ask["language"], "instructions": instructions, "options": options}
    return SpeechRequest(case["text"], voice, **(made | wishes))


@dataclass
class Family:
    """One checkpoint's stages."""

    prepare: QwenPrepare
    encode: QwenEncode
    talker: QwenTalker
    info: ModelInfo

    @classmethod
    def open(cls, folder: Path, weights: str = "auto", random_weights: bool = False) -> "Family":
        made = read_config(folder)
        context = StageContext(SPEC, folder, made, "cpu", "float32", weights=weights, random_weights=random_weights)
        return cls(QwenPrepare(context), QwenEncode(context), QwenTalker(context), describe(SPEC, folder, made))

    def prompt(self, asked: SpeechRequest) -> QwenPrompt:
        return self.encode([self.prepare(checked(asked, SPEC, self.info, Limits()))])[0]


class Stage(TalkerHarness):
    """The frame stage's way of calling a talker, without its thread; every logits row is kept."""

    def __init__(self, talker: QwenTalker, slots: int = 4, page_size: int = 16, positions: int = 256) -> None:
        super().__init__(talker, slots, page_size, positions)
        self.first_logits: list[torch.Tensor] = []  # [B, vocabulary] per step
        self.other_logits: list[torch.Tensor] = []  # [B, codes], 15 per step
        self._first, self._others = talker.logits, talker.net.code_predictor.logits

    def join(
        self,
        slots: Sequence[int],
        prompts: Sequence[QwenPrompt],
        sampling: Sampling = GREEDY,
        seeds: Sequence[int] | None = None,
        piece: int = 1000,
    ) -> Sequence[bool] | None:
        return super().join(slots, prompts, sampling, seeds, piece)

    def step(self, *slots: int) -> Any:
        talker = self.talker
        talker.logits = lambda hidden: self._keep(self.first_logits, self._first(hidden))
        predictor = talker.net.code_predictor
        program, predictor.program = predictor.program, None  # which shows no logits
        predictor.logits = lambda hidden, book: self._keep(self.other_logits, self._others(hidden, book))
        try:
            return super().step(*slots)
        finally:
            talker.logits, predictor.logits, predictor.program = self._first, self._others, program

    @staticmethod
    def _keep(into: list[torch.Tensor], value: torch.Tensor) -> torch.Tensor:
        into.append(value)
        return value

    def speak(self, slots: Sequence[int], steps: int) -> list[np.ndarray]:
        """The frames of these slots, [n, G] each, until their end or for so many steps; ended ones keep running."""
        frames: list[list[np.ndarray]] = [[] for _ in slots]
        over = [False] * len(slots)
        for _ in range(steps):
            step = self.step(*slots)
            for i, (frame, emitted, stopped) in enumerate(zip(*step, strict=True)):
                if emitted and not over[i]:
                    frames[i].append(frame.numpy())
                over[i] |= bool(stopped)
        return [np.array(own) for own in frames]
