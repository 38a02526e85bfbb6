"""A family that spells: every letter is a tone of its own, everything else is silence."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rhapsode.models.base import GeneratorPrompt, ModelSpec, StageContext, StageSpec
from rhapsode.models.registry import Model
from rhapsode.types import Capabilities, Samples, SpeechRequest

RATE = 24_000
LETTERS = "abcdefghijklmnopqrstuvwxyz'"
LETTER_S, TONE_S = 0.08, 0.06
"""Each letter lasts so long, and sounds so long."""
LONGEST_S = 20.0
"""A voice that does not stop ends here, so that a test ends."""


def hertz(letter: str) -> float:
    return 300.0 + 100.0 * LETTERS.index(letter)


@dataclass(frozen=True)
class SpellingOptions:
    ending: str = "stop"
    """`stop`; or what follows the text without an end: `silence`, `hum` or `repeat`."""
    without: str = ""
    """A word that is left out."""
    wait_s: float = 0.0
    """Before each letter."""


@dataclass
class SpellingPrompt(GeneratorPrompt):
    options: SpellingOptions = field(default_factory=SpellingOptions)
    text: str = ""
    closed: bool = True

    def push(self, text: str) -> None:
        self.text += text

    def close(self) -> None:
        self.closed = True


class SpellingPrepare:
    def __init__(self, context: StageContext) -> None:
        """Needs nothing of the context."""

    def __call__(self, request: SpeechRequest) -> SpellingPrompt:
        text = request.text
        if request.options.without:
            text = text.replace(f"{request.options.without} ", "")
        prompt = SpellingPrompt(options=request.options, text=text, closed=not request.text_open)
        prompt.feed = prompt if request.text_open else None
        return prompt


class SpellingSpeaker:
    def __init__(self, context: StageContext) -> None:
        """Needs nothing of the context."""

    def speak(self, prompt: SpellingPrompt, seed: int) -> Iterator[Samples | None]:
        said = 0
        while not prompt.closed or said < len(prompt.text):
            if said == len(prompt.text):
                yield None
                continue
            time.sleep(prompt.options.wait_s)
            yield spelled(prompt.text[said])
            said += 1
        for _ in range(round(LONGEST_S / LETTER_S) if prompt.options.ending != "stop" else 0):
            said += 1
            yield {"silence": spelled(" "), "hum": 0.002 * spelled("a")}.get(
                prompt.options.ending, spelled(f"{prompt.text} "[said % (len(prompt.text) + 1)])
            )


def spelled(char: str) -> Samples:
    samples = np.zeros((1, round(LETTER_S * RATE)), np.float32)
    if char.lower() in LETTERS:
        times_s = np.arange(round(TONE_S * RATE)) / RATE
        samples[0, : len(times_s)] = 0.5 * np.sin(2 * np.pi * hertz(char.lower()) * times_s)
    return samples


SPEC = ModelSpec(
    name="spelling",
    summary="letters as tones",
    sample_rate=RATE,
    can=Capabilities(text_stream=True),
    languages=(),
    normalise=True,
    options=SpellingOptions,
    sampling=(),
    pipeline=(
        StageSpec("prepare", "call", "spelling.family:SpellingPrepare", next=("speak",)),
        StageSpec("speak", "generator", "spelling.family:SpellingSpeaker", takes_text=True),
    ),
)
SPELLING = Model(SPEC, None, {})
