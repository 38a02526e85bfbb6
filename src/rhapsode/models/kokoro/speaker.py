"""The burst worker, which speaks sentences in two launches, and the codec after it, whose frames are samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.device.state import State
from rhapsode.models.base import Measured, Measurement, StageContext, Traits
from rhapsode.models.kokoro.config import read_config
from rhapsode.models.kokoro.folder import config_of
from rhapsode.models.kokoro.parts import kokoro_net
from rhapsode.models.kokoro.prepare import KokoroPrompt
from rhapsode.models.kokoro.renderer import PhonemeSentence, Renderer, TimedPhonemes
from rhapsode.models.kokoro.trim import trimmed

FRAMES_OF_LAUNCH = {"cpu": 512, "cuda": 8192}
"""Frames, or positions, in the largest launch of several sentences: a CPU gains nothing from larger ones."""


class KeptPhonemes(NamedTuple):
    """What the first launch leaves for the second, on the device."""

    prosodic: Tensor  # [P, hidden + style]
    text: Tensor  # [P, hidden]


class KokoroSpeaker:
    """A frame of its stream is a run of samples."""

    def __init__(self, context: StageContext) -> None:
        config = read_config(config_of(context.config))
        device = torch.device(context.device)
        self._sample_rate = context.spec.sample_rate
        self._styles = 2 * config.style_dim
        self._net = kokoro_net(context)  # benchmarks count the weights that a worker holds
        self._renderer = Renderer(self._net, config.samples_per_frame)
        self.frame_shape, self.frame_dtype = (config.samples_per_frame,), torch.float32
        self.launch_size = FRAMES_OF_LAUNCH.get(device.type, max(FRAMES_OF_LAUNCH.values()))

    def traits(self) -> Traits:
        return Traits(measure=self.measure, heard=self.heard)

    def size(self, prompt: KokoroPrompt) -> int:
        return len(self._sentence(prompt).ids)

    def measure(self, prompts: Sequence[KokoroPrompt], seeds: Tensor, length: int) -> Measurement:
        sentences = [self._sentence(prompt) for prompt in prompts]
        made = self._renderer.measure(sentences, length)
        kept = [
            KeptPhonemes(prosodic[: len(one.ids)], text[: len(one.ids)])
            for one, prosodic, text in zip(sentences, made.prosodic, made.text, strict=True)
        ]
        for durations, prompt in zip(made.durations, prompts, strict=True):
            if prompt.sentence is None:
                durations.zero_()
        return Measurement(made.durations, kept)

    def burst(self, prompts: Sequence[Measured], seeds: Tensor, length: int) -> list[Tensor]:
        timed = [self._timed(one) for one in prompts]
        samples = self._renderer.samples(timed, seeds, length).float()
        size, edges = self._renderer.samples_per_frame, [one.prompt.edges for one in prompts]
        counts = [one.frames * size for one in timed]
        if any(edges):
            samples = trimmed(samples, counts, edges, self._sample_rate)
        frames = F.pad(samples, (0, -samples.shape[1] % size)).unflatten(1, (-1, size))
        more = [0 if edge is None else -(-edge.pause // size) for edge in edges]
        return [row[: one.frames + extra] for row, one, extra in zip(frames, timed, more, strict=True)]

    def heard(self, prompts: Sequence[Measured], frames: Sequence[Tensor]) -> Tensor:
        """A sentence whose silence is cut ends with the last frame that has a sample."""
        kept = [torch.ones(len(row), dtype=torch.bool, device=row.device) for row in frames]
        for i, (prompt, row) in enumerate(zip(prompts, frames, strict=True)):
            if prompt.prompt.edges is not None:
                kept[i] = (row != 0).any(1)
        sounds = pad_sequence(kept, batch_first=True)
        return (sounds * torch.arange(1, sounds.shape[1] + 1, device=sounds.device)).amax(1)

    def _timed(self, measured: Measured) -> TimedPhonemes:
        sentence = self._sentence(measured.prompt)
        return TimedPhonemes(sentence, measured.durations[: len(sentence.ids)], *measured.kept)

    def _sentence(self, prompt: KokoroPrompt) -> PhonemeSentence:
        """Returns the sentence of a prompt; of one that says nothing the shortest, whose durations are not used."""
        return prompt.sentence or PhonemeSentence((0, 0), torch.zeros(self._styles))


class KokoroCodec:
    """Hands on samples as they are."""

    channels = 1
    reach = Reach()

    def __init__(self, context: StageContext) -> None:
        self.hop = read_config(config_of(context.config)).samples_per_frame

    def state(self, slots: int) -> State:
        return State()

    def decode(self, window: Window, rows: Rows, state: State) -> Tensor:
        return window.frames.flatten(1)[:, None]
