"""What upstream was asked for in each golden case, as requests of ours; and our parts, run as the engine runs them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rhapsode.audio.clip import Audio
from rhapsode.checking.request import checked
from rhapsode.checkpoints.folder import read_config
from rhapsode.config import Limits
from rhapsode.device.slots import Rows, SlotTable
from rhapsode.models.base import StageContext, Step
from rhapsode.models.companions import find_companions
from rhapsode.models.moss_tts_nano.codec import MossCodec
from rhapsode.models.moss_tts_nano.encode import MossEncode
from rhapsode.models.moss_tts_nano.prepare import MossPrepare, NextChunk
from rhapsode.models.moss_tts_nano.prompt import MossPrompt
from rhapsode.models.moss_tts_nano.spec import SPEC
from rhapsode.models.moss_tts_nano.talker import MossTalker
from rhapsode.nn.streaming import ChainState
from rhapsode.types import Sampling, SpeechRequest, Voice
from tiny.talking import TalkerHarness

GOLDEN = Path(__file__).parents[2] / "golden" / "moss_tts_nano"
CHECKPOINT = GOLDEN / "checkpoint"
INDEX: dict[str, Any] = json.loads((GOLDEN / "cases.json").read_text("utf-8"))
CASES: dict[str, Any] = {case["name"]: case for case in INDEX["cases"]}
SPOKEN = [name for name, case in CASES.items() if case.get("kind") != "codec"]
FRAMES: int = INDEX["frames"]


def golden(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{name}.npz"))


def request(name: str, **wishes: Any) -> SpeechRequest:
    """The request of a golden case: greedy; what `wishes` has comes on top."""
    case = CASES[name]
    given, reference = case.get("options", {}), case.get("reference")
    options = {key: given[key] for key in ("nq", "max_text_tokens") if key in given}
    voice = Voice.cloned(Audio.open(GOLDEN / reference["audio"]), reference.get("text")) if reference else Voice()
    greedy = Sampling(temperature=0.0, repetition_penalty=given.get("audio_repetition_penalty", 1.0))
    return SpeechRequest(case["text"], voice, sampling=greedy, options=options, **wishes)


def context_of(folder: Path, dtype: str = "float32") -> StageContext:
    config = read_config(folder)
    return StageContext(SPEC, folder, config, "cpu", dtype, companions=find_companions(SPEC, folder, {}, config))


@dataclass
class Family:
    """One checkpoint's stages."""

    prepare: MossPrepare
    encode: MossEncode
    talker: MossTalker
    codec: MossCodec

    @classmethod
    def open(cls, folder: Path = CHECKPOINT, dtype: str = "float32") -> "Family":
        context = context_of(folder, dtype)
        return cls(MossPrepare(context), MossEncode(context), MossTalker(context), MossCodec(context))

    def prompts(self, asked: SpeechRequest) -> list[MossPrompt]:
        """The prompt of each chunk of a request."""
        found, work = [], checked(asked, SPEC, SPEC.info(), Limits())
        while work is not None:
            assert isinstance(work, SpeechRequest | NextChunk)
            (prompt,) = self.encode([self.prepare(work)])
            found.append(prompt)
            work = prompt.following() if prompt.following else None
        return found


def rows_of(prompt: MossPrompt) -> np.ndarray:
    """All rows of a prompt: those to prefill, and the first step's input."""
    assert prompt.content is not None
    return np.concatenate([prompt.content, prompt.last[None]])


class Stage(TalkerHarness):
    """The frame stage's way of calling a talker; logits and hidden states are kept, and codes may be forced."""

    def __init__(self, talker: MossTalker, slots: int = 4, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(talker, slots, 16, 256, dtype)
        self.hidden: list[Tensor] = []
        self.ending: list[Tensor] = []
        self.logits: list[Tensor] = []
        self.forced: Tensor | None = None  # [B, books]

    def step(self, *slots: int) -> Step:
        net = self.talker.net
        frame = net.frame

        def kept(hidden: Tensor, decide: Any, choose: Any) -> tuple[Tensor, Tensor]:
            logits: list[Tensor] = []

            def watched_decide(scores: Tensor) -> Tensor:
                self.ending.append(scores)
                drawn = decide(scores)
                return drawn if self.forced is None else torch.zeros_like(drawn)

            def watched_choose(book: int, scores: Tensor) -> Tensor:
                logits.append(scores)
                drawn = choose(book, scores)
                given = self.forced is not None and book < self.forced.shape[1]
                return self.forced[:, book] if given and self.forced is not None else drawn

            found = frame(hidden, watched_decide, watched_choose)
            self.hidden.append(hidden)
            self.logits.append(torch.stack(logits, dim=1))
            return found

        net.frame = kept
        try:
            return super().step(*slots)
        finally:
            net.frame = frame


def codec_rows(slots: Sequence[int]) -> Rows:
    return Rows(torch.tensor(slots), SlotTable(max(slots) + 2, 0, torch.device("cpu")))


def decode(codec: MossCodec, codes: np.ndarray, heard: MossPrompt | None = None, slot: int = 0) -> np.ndarray:
    """The waveform of codes `[n, books]`, after what the prompt says was heard before."""
    from rhapsode.device.reach import Window

    state: ChainState = codec.state(2)
    if heard is not None:
        codec.open([heard], codec_rows([slot]), state)
    made: np.ndarray = codec.decode(Window.of(torch.from_numpy(codes)[None]), codec_rows([slot]), state)[0].numpy()
    return made
