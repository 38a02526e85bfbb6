"""A family of three device stages: talker ==codes==> converter ==other frames==> codec.

The converter doubles the rate, looks two frames ahead, works in blocks of four whose first one is shorter for some
requests, and has keys and values of its own. The codec looks three frames behind and works in blocks of five. Each
result depends on everything it may depend on, so that any other cut, order or neighbour changes it. All arithmetic is
on whole numbers.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rhapsode.device.kv import KVLayout
from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import Prompt, Span, StageContext, StageSpec, Traits
from rhapsode.models.dummy.prompt import DummyPrompt
from rhapsode.models.dummy.spec import SPEC

HERE = __name__
VALUES = 251  # small enough that bfloat16 holds every one exactly
HOP = 640


def grid(context: StageContext):
    """Makes the converter's prompt: where its grid of blocks begins depends on the voice and its instructions."""

    def make(prompt: DummyPrompt) -> Prompt:
        return Prompt(prompt.max_frames, length=prompt.length, content=prompt.content, offset=(prompt.length + 1) % 4)

    return make


class Converter:
    """Frames at twice the rate, two numbers each: of the block, of all before, and of what is to come."""

    reach = Reach(lookahead=2, granularity=4)
    rate = 2
    frame_shape = (2,)
    frame_dtype = torch.int64

    def __init__(self, context: StageContext) -> None:
        self._device = torch.device(context.device)

    def traits(self) -> Traits:
        return Traits(kv=(KVLayout(layers=1, heads=1, head_dim=1),), prefill=self.prefill)

    def state(self, slots: int) -> State:
        return State()

    def prefill(self, prompts: Sequence[Prompt], spans: Sequence[Span], rows: Rows, state: State) -> None:
        for i, (prompt, (start, stop, base)) in enumerate(zip(prompts, spans, strict=True)):
            if start < stop:
                assert prompt.content is not None
                tokens = torch.from_numpy(prompt.content[start:stop, 0]).to(self._device)[None]
                where = torch.arange(base + start, base + stop, device=self._device)[None]
                self._write(Rows(rows.slots[i : i + 1], rows.table, rows.kv), where, tokens, torch.ones_like(where) > 0)

    def decode(self, window: Window, rows: Rows, state: State) -> Tensor:
        assert window.present is not None
        size, made = self.reach.granularity, []
        codes = (window.frames.sum(2) * window.present) % VALUES  # [B, due + 2]
        there = window.present
        skip = (there.cumsum(1) == 0).sum(1)  # frames the first block lacks
        for start in range(0, window.due, size):
            block, here = codes[:, start : start + size], there[:, start : start + size]
            coming = codes[:, start + 1 : start + size + 1] + 3 * codes[:, start + 2 : start + size + 2]
            first = rows.positions + 2 * (start - skip)  # the position of the block's first frame
            past = self._checksum(rows, torch.maximum(first, rows.positions))
            value = (past[:, None] * 5 + block.sum(1, keepdim=True) * 3 + block + 7 * coming) % VALUES  # [B, size]
            where = first[:, None] + 2 * torch.arange(size, device=first.device)
            for half in (0, 1):
                self._write(rows, where + half, (value + half) % VALUES, here)
            pair = torch.stack([value, (value * 11 + 1) % VALUES], dim=2)  # [B, size, 2]
            made.append(torch.stack([pair, (pair + 17) % VALUES], dim=2).flatten(1, 2))  # [B, 2 * size, 2]
        return torch.cat(made, dim=1)

    def _write(self, rows: Rows, where: Tensor, values: Tensor, here: Tensor) -> None:
        """Absent frames are written to the scratch page."""
        kv, pages = rows.kv[0], rows.pages
        index = (where // kv.page_size).clamp(0, pages.shape[1] - 1)
        page = torch.where(here, pages.gather(1, index), 0)
        kv.keys[0, page, where % kv.page_size, 0, 0] = values.to(kv.keys.dtype)

    def _checksum(self, rows: Rows, before: Tensor) -> Tensor:
        keys, _ = rows.kv[0].read(0, rows.pages)
        past = keys[:, :, 0, 0].to(torch.int64)
        where = torch.arange(past.shape[1], device=past.device)[None]
        return (past * (where % 13 + 1) * (where < before[:, None])).sum(1) % VALUES


class CodecState(State):
    def __init__(self, slots: int, device: torch.device) -> None:
        self.heard = buffer(slots, dtype=torch.int64, device=device)  # a sum over all frames so far


class Codec:
    """Steps: a level of each frame, its block, the three frames before it and all before those."""

    reach = Reach(lookbehind=3, granularity=5)
    hop = HOP
    channels = 1

    def __init__(self, context: StageContext) -> None:
        self._device = torch.device(context.device)

    def state(self, slots: int) -> CodecState:
        return CodecState(slots, self._device)

    def decode(self, window: Window, rows: Rows, state: CodecState) -> Tensor:
        assert window.present is not None
        behind, size = self.reach.lookbehind, self.reach.granularity
        values = window.frames.sum(2) * window.present  # [B, 3 + due]
        due, here = values[:, behind:], window.present[:, behind:]
        before = sum((i + 2) * values[:, i : i + window.due] for i in range(behind))
        block = due.unflatten(1, (-1, size)).sum(2).repeat_interleave(size, dim=1)
        total = state.heard[rows.slots][:, None] + (due * here).cumsum(1)
        state.heard[rows.slots] = total[:, -1] % VALUES
        level = (due * 5 + before + block * 3 + total % VALUES) % VALUES + 1  # [B, due]
        ramp = torch.arange(1, self.hop + 1, device=self._device, dtype=torch.float32) / self.hop
        return (level.to(torch.float32)[:, :, None] / VALUES * ramp).flatten(1)[:, None]


PREPARE, ENCODE, TALK, _ = SPEC.pipeline

CHAIN = replace(
    SPEC,
    pipeline=(
        PREPARE,
        replace(ENCODE, next=("talk", "grid")),
        StageSpec("grid", "call", f"{HERE}:grid", next=("convert",)),
        replace(TALK, stream_to=("convert",)),
        StageSpec("convert", "stream", f"{HERE}:Converter", stream_to=("vocode",)),
        StageSpec("vocode", "stream", f"{HERE}:Codec"),
    ),
)
