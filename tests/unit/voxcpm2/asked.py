"""What upstream was asked for in each golden case, as requests of ours; and our parts, run as the engine runs them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.models.base import StageContext, Step
from rhapsode.models.voxcpm2.codec import VoxCodec
from rhapsode.models.voxcpm2.encode import Encode
from rhapsode.models.voxcpm2.prepare import Prepare
from rhapsode.models.voxcpm2.prompt import VoxPrompt
from rhapsode.models.voxcpm2.spec import SPEC
from rhapsode.models.voxcpm2.talker import VoxTalker
from rhapsode.types import Clip, Reference, SpeechRequest, Voice
from tiny.voxcpm2 import SAMPLE_RATE, Tiny, noise, reference_audio

GOLDEN = Path(__file__).parents[2] / "golden" / "voxcpm2"
INDEX: dict[str, Any] = json.loads((GOLDEN / "index.json").read_text("utf-8"))
CASES: dict[str, Any] = INDEX["cases"]
CPU = torch.device("cpu")


def golden(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{name}.npz"))


def clip(samples: int, rate: int = SAMPLE_RATE, seed: int = 0) -> Clip:
    return Clip(reference_audio(samples, seed)[None], rate)


def voice_of(case: dict[str, Any]) -> tuple[Voice, str | None]:
    """The voice of a golden case, and `cloning`: one clip is used in one or two ways, two clips have a place each."""
    rate = case["rate"]
    reference = clip(case["reference"], rate) if case["reference"] else None
    if not case["prompt"]:
        return Voice(reference=reference), None
    prompt = Reference(clip(case["prompt"], rate, case["prompt_seed"]), case["prompt_text"])
    if reference is not None and (case["reference"], 0) != (case["prompt"], case["prompt_seed"]):
        return Voice(reference=reference, continued=prompt), None
    return Voice(reference=prompt.audio, reference_text=prompt.text), "both" if reference else "continuation"


def request(case: dict[str, Any], **wishes: Any) -> SpeechRequest:
    """The request of a golden case; what `wishes` has comes on top."""
    voice, cloning = voice_of(case)
    options = case["ask"] | ({"cloning": cloning} if cloning else {})
    text, instructions = case["text"].removeprefix(case["before"]), case["before"].strip("()") or None
    return SpeechRequest(text, voice, instructions=instructions, options=options, **wishes)


@dataclass
class Family:
    """One checkpoint's stages."""

    prepare: Prepare
    encode: Encode
    talker: VoxTalker
    codec: VoxCodec

    @classmethod
    def open(cls, folder: Path, dtype: str = "float32", **options: Any) -> "Family":
        config = json.loads((folder / "config.json").read_text()) | options
        context = StageContext(SPEC, folder, config, "cpu", dtype)
        return cls(Prepare(context), Encode(context), VoxTalker(context), VoxCodec(context))

    def prompt(self, asked: SpeechRequest) -> VoxPrompt:
        return self.encode([self.prepare(asked)])[0]


class Stage:
    """The frame stage's way of calling a talker, without its thread; what it computes on the way is kept."""

    def __init__(self, talker: VoxTalker, slots: int = 4, page_size: int = 16, positions: int = 256) -> None:
        pages = -(-positions // page_size)
        self.talker = talker
        self.table = SlotTable(slots, pages, CPU)
        self.kv = tuple(PagedKV(layout, slots * pages, page_size, talker.frame_dtype, CPU) for layout in talker.kv())
        self.state = talker.state(slots)
        self._pages = [list(range(1 + slot * pages, 1 + (slot + 1) * pages)) for slot in range(slots)]
        self.base: list[Tensor] = []
        self.residual: list[Tensor] = []
        self.stop: list[Tensor] = []

    def rows(self, *slots: int) -> Rows:
        return Rows(torch.tensor(slots), self.table, self.kv)

    def join(self, slots: Sequence[int], prompts: Sequence[VoxPrompt], seed: int = 0, piece: int = 1000) -> None:
        """Prefill these prompts together, `piece` positions of each at a time."""
        chosen = vars(self.talker.defaults)
        self.table.join([SlotRow(slot, seed + slot, self._pages[slot], **chosen) for slot in slots])
        self.state.clear(torch.tensor(slots))
        for start in range(0, max(prompt.length for prompt in prompts), piece):
            going = [(s, p) for s, p in zip(slots, prompts, strict=True) if start < p.length]
            spans = [(start, min(start + piece, p.length)) for _, p in going]
            self.talker.prefill([p for _, p in going], spans, self.rows(*(s for s, _ in going)), self.state)
        for slot, prompt in zip(slots, prompts, strict=True):
            self.table.position[slot] = prompt.length

    def step(self, *slots: int) -> Step:
        talker, rows = self.talker, self.rows(*slots)
        hidden, stop = talker.hidden, talker.net.stop

        def kept_hidden(rows: Rows, state: Any) -> tuple[Tensor, Tensor]:
            base, residual = hidden(rows, state)
            self.base.append(base)
            self.residual.append(residual)
            return base, residual

        def kept_stop(base: Tensor) -> Tensor:
            self.stop.append(stop(base))
            return self.stop[-1]

        talker.hidden, talker.net.stop = kept_hidden, kept_stop
        try:
            step = talker.step(rows, self.state)
        finally:
            talker.hidden, talker.net.stop = hidden, stop
        self.table.advance(rows.slots)
        return step


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
