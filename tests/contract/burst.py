"""Families whose frames are made in bursts, a sentence at a time: a burst ==codes==> codec, and a burst ==codes==>
converter ==other frames==> codec.

Each frame depends on the whole sentence, from its end as well as from its beginning, on the voice, the seed and its own
place. Padding holds numbers that would be heard. All arithmetic is on whole numbers, so results are exact in every
batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from contract import chain
from rhapsode.models.base import Measured, Measurement, Prompt, StageContext, StageSpec, Traits
from rhapsode.models.dummy.prompt import check_fits, sound, tokenize
from rhapsode.models.dummy.spec import SPEC, DummyOptions
from rhapsode.models.dummy.talker import CODEBOOKS, CODES
from rhapsode.models.turn_feed import next_of
from rhapsode.nn.philox import uniform
from rhapsode.text.clean import clean
from rhapsode.text.turns import NO_SPEAKERS, TurnStream
from rhapsode.types import SpeechRequest

HERE = __name__
MOST_CHARS = 400
JUNK = 77
"""What padding holds."""
BEYOND = 8
"""Frames beyond what the text can need, for a request that is `endless`."""


@dataclass
class SentencePrompt(Prompt):
    tokens: list[int] = field(default_factory=list)
    endless: bool = False


class Sentence(NamedTuple):
    """The next sentence of a request, on its way to `Prepare`."""

    request: SpeechRequest
    text: str
    rest: TurnStream


class Prepare:
    """Gives every sentence of a text a prompt of its own, whether the text is whole or arrives in pieces."""

    def __init__(self, context: StageContext) -> None:
        self._spec = context.spec
        self._unspoken: str = context.settings.unspoken

    def __call__(self, work: SpeechRequest | Sentence) -> SentencePrompt:
        if isinstance(work, Sentence):
            return self._prompt(work)
        rest = TurnStream(NO_SPEAKERS, MOST_CHARS)
        check_fits(len(work.text))
        rest.push(work.text if work.text_open else clean(work.text))
        if work.text_open:
            return replace(self._prompt(Sentence(work, "", rest)), max_frames=0)  # context only: its text comes later
        rest.close()
        return self._prompt(Sentence(work, rest.next_turn() or "", rest))

    def _prompt(self, sentence: Sentence) -> SentencePrompt:
        request, text, rest = sentence
        options: DummyOptions = request.options
        voice = tokenize(f"{sound(request.voice) or self._spec.voices[0]}:{request.instructions or ''}")
        is_spoken = not self._unspoken or self._unspoken not in text
        tokens = [token * 7 + sum(voice) % 97 for token in tokenize(text.strip())] if is_spoken else []
        content = np.array(voice, np.int64)[:, None]
        return SentencePrompt(
            max_frames=max(1, 2 * len(tokens)),
            length=len(voice),
            content=content,
            tokens=tokens,
            endless=options.endless,
            feed=rest if request.text_open else None,
            following=next_of(rest, lambda text: Sentence(request, text, rest)),
        )


def padded(rows: Sequence[list[int]], length: int) -> tuple[Tensor, Tensor]:
    """Returns the numbers of all rows, `[B, length]`, and which of them are there."""
    lengths = torch.tensor([len(row) for row in rows])
    values = torch.tensor([[*row, *[JUNK] * (length - len(row))] for row in rows]).reshape(len(rows), length)
    return values, torch.arange(length) < lengths[:, None]


class DummyBurst:
    """One frame for each character, in one launch."""

    frame_shape = (CODEBOOKS,)
    frame_dtype = torch.int64
    launch_size = 128

    def __init__(self, context: StageContext) -> None:
        self._device = torch.device(context.device)

    def size(self, prompt: SentencePrompt) -> int:
        return len(prompt.tokens)

    def burst(self, prompts: Sequence[SentencePrompt], seeds: Tensor, length: int) -> list[Tensor]:
        tokens = [prompt.tokens + [1] * (prompt.max_frames + BEYOND) * prompt.endless for prompt in prompts]
        return self._codes(tokens, seeds, max(length, *map(len, tokens)))

    def _codes(self, tokens: Sequence[list[int]], seeds: Tensor, length: int) -> list[Tensor]:
        """Returns a frame for each token."""
        values, there = (each.to(self._device) for each in padded(tokens, length))
        before = (values * there).cumsum(1)
        whole = before[:, -1:] if length else before
        context = before * 31 + (whole - before) * 17 + whole + torch.arange(length, device=self._device)  # [B, length]
        steps = torch.arange(length, device=self._device).repeat(len(tokens))
        noise = uniform(seeds.repeat_interleave(length), steps, 0, CODEBOOKS).unflatten(0, (len(tokens), length))
        books = torch.arange(1, CODEBOOKS + 1, device=self._device)
        codes = (context[..., None] * books + (noise * 16).to(torch.int64)) % CODES  # [B, length, G]
        return [row[: len(given)] for row, given in zip(codes, tokens, strict=True)]


class MeasuredBurst(DummyBurst):
    """One or two frames for each character: a first launch says which."""

    def traits(self) -> Traits:
        return Traits(measure=self.measure)

    def measure(self, prompts: Sequence[SentencePrompt], seeds: Tensor, length: int) -> Measurement:
        values, there = padded([prompt.tokens for prompt in prompts], length)
        durations = (1 + (values + (values * there).sum(1, keepdim=True)) % 2) * there
        endless = torch.tensor([(prompt.max_frames + BEYOND) * prompt.endless for prompt in prompts])
        return Measurement(torch.cat([durations, endless[:, None]], dim=1).to(self._device), [*durations.unbind()])

    def burst(self, prompts: Sequence[Measured], seeds: Tensor, length: int) -> list[Tensor]:
        assert all(prompt.kept.sum() == prompt.durations[:-1].sum() for prompt in prompts)
        tokens = [
            [token for token, n in zip(each.prompt.tokens, each.durations.tolist(), strict=False) for _ in range(n)]
            for each in prompts
        ]
        return self._codes(tokens, seeds, length)


def grid(context: StageContext) -> Callable[[Prompt], Prompt]:
    """Makes the converter's prompt, with room for the frames of all sentences."""
    of_first = chain.grid(context)
    return lambda prompt: replace(of_first(prompt), positions=2000)


PREPARE = StageSpec("prepare", "call", f"{HERE}:Prepare", next=("talk",))
TALK = StageSpec("talk", "burst", f"{HERE}:DummyBurst", stream_to=("vocode",), takes_text=True)
*_, VOCODE = SPEC.pipeline
_, _, GRID, _, CONVERT, LAST = chain.CHAIN.pipeline

BURST = replace(SPEC, pipeline=(PREPARE, replace(TALK, factory=f"{HERE}:MeasuredBurst"), VOCODE))
BURST_CHAIN = replace(
    SPEC,
    pipeline=(
        replace(PREPARE, next=("talk", "grid")),
        replace(GRID, factory=f"{HERE}:grid"),
        replace(TALK, stream_to=("convert",)),
        CONVERT,
        LAST,
    ),
)
