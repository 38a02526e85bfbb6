"""Hears every preset on a GPU, minutes after training: 200 written and 500 generated prompts, word errors by preset.

    python hear.py MODEL EAR

EAR is the output of `whisper.py`. The talker speaks as it is served, greedily, from what the package's front end makes
of a text: all of it first, and one token per frame. `evaluate.py` gives the figures that count, a clip in two seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import shape
from codec import read_config
from lines import Codes
from rhapsode.bench.quality.generated import generate
from rhapsode.bench.quality.normalise import normalise
from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.checkpoints.load import load
from rhapsode.models.qwen3_tts.config import QwenConfig, read
from rhapsode.models.qwen3_tts.decoder import CodecDecoder, CodecDecoderConfig
from rhapsode.nn import kernels
from rhapsode.nn.derived import derive
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.spoken import SpokenRun
from sampler import Asker, Sampler
from talker import TrainableTalker
from voices import PRESETS
from whisper import Whisper

POSITIONS, FRAMES = 224, 360
"""Of the longest prompt and of its speech."""
AT_ONCE, FRAMES_AT_ONCE = 384, 20_000
"""Clips decoded and heard together, and their frames."""


class Ask(NamedTuple):
    """A text, and who says it how."""

    text: str
    preset: int
    streaming: bool


class Heard(NamedTuple):
    ask: Ask
    errors: int
    words: int


class Speaker:
    """Talker and codec."""

    def __init__(self, model: Path, batch: int, device: torch.device, positions: int, frames: int) -> None:
        shape.write(model)
        self.config: QwenConfig = read(read_config(model), model)
        talker = TrainableTalker(self.config)
        load(talker.net, model, prefix="talker.", device=device)
        codec = read_config(model / "speech_tokenizer")["decoder_config"]
        self._decoder = CodecDecoder(CodecDecoderConfig.from_dict(codec))
        load(self._decoder, model / "speech_tokenizer", prefix="decoder.", device=device)
        derive(self._decoder.to(device).eval())
        self._asker, self._positions, self._device = Asker(self.config, model), positions, device
        self._sampler = Sampler(talker.to(device).eval(), self.config, batch, positions, frames)

    def codes(self, asks: list[Ask]) -> list[Codes | None]:
        """Draws the frames of each; `None` where there is no end, or no room."""
        asked = [self._asker.ask(told(ask.text), ask.preset, ask.streaming) for ask in asks]
        fitting = [i for i, one in enumerate(asked) if len(one.rows) < self._positions]
        fitting.sort(key=lambda i: len(asked[i].rows) + len(asked[i].rest))  # those of one length together
        drawn = dict(zip(fitting, self._sampler.draw([asked[i] for i in fitting]), strict=True))
        return [drawn.get(i) for i in range(len(asks))]

    @torch.no_grad()
    def audio(self, frames: list[Codes]) -> torch.Tensor:
        """Decodes them to `[B, samples]`, padded with silence."""
        longest = max(map(len, frames))
        codes = np.zeros((len(frames), longest, self.config.groups), np.int64)
        for row, some in zip(codes, frames, strict=True):
            row[: len(some)] = some
        audio = self._decoder(torch.from_numpy(codes).to(self._device))[:, 0]
        ends = torch.tensor([len(some) for some in frames], device=self._device) * (audio.shape[1] // longest)
        return audio * (torch.arange(audio.shape[1], device=self._device) < ends[:, None])


def hear(speaker: Speaker, ear: Whisper, asks: list[Ask]) -> list[Heard]:
    meant = [normalise(ask.text, "en").split() for ask in asks]
    found = [Heard(ask, len(words), len(words)) for ask, words in zip(asks, meant, strict=True)]  # all wrong so far
    said = [(i, frames) for i, frames in enumerate(speaker.codes(asks)) if frames is not None and len(frames)]
    said.sort(key=lambda one: len(one[1]))
    while said:
        count = min(AT_ONCE, max(1, FRAMES_AT_ONCE // len(said[-1][1])))
        some, said = said[-count:], said[:-count]
        texts = ear.transcribe(speaker.audio([frames for _, frames in some]))
        for (i, _), text in zip(some, texts, strict=True):
            found[i] = found[i]._replace(errors=word_errors(meant[i], normalise(text, "en").split()))
    return found


def told(text: str) -> str:
    """Returns what the talker is given to read."""
    front_end = FrontEnd(TextSettings(language="en", normalise=True, phonemes=True))
    events = [*front_end.push(text), *front_end.close()]
    return "".join(event.text for event in events if isinstance(event, SpokenRun))


def word_errors(meant: list[str], heard: list[str]) -> int:
    """Returns the edit distance of two lists of words."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(meant, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def table(heard: Iterable[Heard]) -> str:
    """Word error rates of the presets, all text first and one token per frame."""
    sums: dict[tuple[bool, int], tuple[int, int]] = {}
    for ask, errors, words in heard:
        before = sums.get((ask.streaming, ask.preset), (0, 0))
        sums[ask.streaming, ask.preset] = before[0] + errors, before[1] + words
    lines = []
    for (streaming, preset), (errors, words) in sorted(sums.items()):
        way = "one token per frame" if streaming else "all text first"
        lines.append(f"{list(PRESETS)[preset]:8} {way:20} {errors / words:.2%} of {words} words")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("ear", type=Path)
    parser.add_argument("--batch", type=int, default=1024, help="prompts that are spoken together")
    parser.add_argument("--most", type=int, help="prompts of each set")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ear, begun = Whisper(options.ear, device), time.monotonic()
    sets = {"written": read_prompts(most=options.most), "generated": generate(options.most or 500, 0)}
    with kernels.use("off"):
        speaker = Speaker(options.model, options.batch, device, POSITIONS, FRAMES)
        for name, prompts in sets.items():
            asks = [
                Ask(prompt.text, preset, streaming)
                for prompt in prompts
                for preset in range(len(PRESETS))
                for streaming in (False, True)
            ]
            print(f"{name}, {len(asks)} clips\n{table(hear(speaker, ear, asks))}", flush=True)
            print(f"after {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
