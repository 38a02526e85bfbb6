"""The dummy family with a codec that keeps the frame it looked ahead at, and is not given it again."""

from dataclasses import replace

import torch
from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.device.state import buffer
from rhapsode.models.base import StageContext
from rhapsode.models.dummy.codec import DummyCodec, DummyCodecState
from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.dummy.talker import CODEBOOKS

PLAIN = Reach(lookahead=1)


class IncrementalState(DummyCodecState):
    def __init__(self, slots: int, device: torch.device) -> None:
        super().__init__(slots, device)
        self.kept = buffer(slots, 1, CODEBOOKS, dtype=torch.int64, device=device)
        self.present = buffer(slots, 1, dtype=torch.bool, device=device)


class IncrementalCodec(DummyCodec):
    """Equal to the dummy codec with a look-ahead of 1."""

    def __init__(self, context: StageContext) -> None:
        super().__init__(context)
        self.reach = Reach(lookahead=1, incremental=True)

    def state(self, slots: int) -> IncrementalState:
        return IncrementalState(slots, self._device)

    def decode(self, window: Window, rows: Rows, state: IncrementalState) -> Tensor:
        frames, present, slots = window.frames.long(), window.present, rows.slots
        assert present is not None
        if frames.shape[1] == window.due:
            frames = torch.cat([state.kept[slots], frames], dim=1)
            present = torch.cat([state.present[slots], present], dim=1)
        state.kept[slots], state.present[slots] = frames[:, -1:], present[:, -1:]
        return super().decode(Window(frames, window.due, PLAIN, present), rows, state)


class ShortenedCodec(IncrementalCodec):
    """The same, but the last frame of a segment is not heard."""

    def __init__(self, context: StageContext) -> None:
        super().__init__(context)
        self.reach = replace(self.reach, unheard=1)


*BEFORE, VOCODE = SPEC.pipeline
INCREMENTAL, SHORTENED = (
    replace(SPEC, pipeline=(*BEFORE, replace(VOCODE, factory=f"{__name__}:{codec}")))
    for codec in ("IncrementalCodec", "ShortenedCodec")
)
