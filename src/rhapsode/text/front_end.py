"""The text front end: from written text, whole or as it arrives, to what a model is given to say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from rhapsode.text.events import TextEvent
from rhapsode.text.lexicon import Lexicon, LexiconStream
from rhapsode.text.markup import InputType, reader_of
from rhapsode.text.normalise.language import language_of, language_of_letter
from rhapsode.text.normalise.stream import Normaliser
from rhapsode.text.phonemes.stream import PhonemeStream
from rhapsode.text.spoken import RunBuffer, SpokenRun

QUICK_CHARS = 128
"""Text up to this length is read in at most about 30 ms, whatever it is: an event loop can do it."""
MOST_UNDECIDED = 256
"""The language of a text is decided by the first letter within so many characters. Without one, it is English."""


@dataclass(frozen=True)
class TextSettings:
    """How a text is read."""

    input_type: InputType = "text"
    language: str | None = None
    """`None`: the first letter decides, if there is one near the start."""
    normalise: bool = False
    lexicon: Lexicon = field(default_factory=Lexicon)
    phonemes: bool = False
    """Whether English words are replaced by phonemes."""


class TextStep(Protocol):
    """A step of the front end: takes runs in order, and returns those that later text cannot change."""

    def push(self, run: SpokenRun) -> list[SpokenRun]: ...

    def close(self) -> list[SpokenRun]: ...


class FrontEnd:
    """Turns written text into spoken runs, pauses and bookmarks. The result does not depend on how the text is cut.

    The steps are: markup, lexicon, normalisation, phonemes. Each passes on what is certain, with the written characters
    it stands for. A pause or another mark ends the words before it.
    """

    def __init__(self, settings: TextSettings) -> None:
        self._settings = settings
        self._chars = 0
        self._markup = reader_of(settings.input_type, settings.language or "en")
        self._steps: list[TextStep] = []
        if settings.lexicon.entries:
            self._steps.append(LexiconStream(settings.lexicon))
        if settings.normalise:
            self._steps.append(_Normalisation(settings.language))
        if settings.phonemes:
            self._steps.append(PhonemeStream())

    def push(self, text: str) -> list[TextEvent]:
        """Takes a piece of the text; returns what is certain now."""
        if self._markup is not None:
            return self._run(self._markup.push(text))
        start, self._chars = self._chars, self._chars + len(text)
        run = SpokenRun(text, start, self._chars, copied=True)
        return self._run([run]) if self._steps else [run] if text else []

    def close(self) -> list[TextEvent]:
        """Ends the text; returns the rest."""
        rest = self._run(self._markup.close()) if self._markup is not None else []
        return [*rest, *self._flushed()]

    def _run(self, events: Iterable[TextEvent]) -> list[TextEvent]:
        found: list[TextEvent] = []
        for event in events:
            if isinstance(event, SpokenRun):
                runs = [event]
                for step in self._steps:
                    runs = [done for run in runs for done in step.push(run)]
                found += runs
            else:
                found += [*self._flushed(), event]
        return [event for event in found if not isinstance(event, SpokenRun) or event.text]

    def _flushed(self) -> list[SpokenRun]:
        """Ends the words so far."""
        runs: list[SpokenRun] = []
        for step in self._steps:
            runs = [*(done for run in runs for done in step.push(run)), *step.close()]
        return runs


class _Normalisation:
    """A normaliser. Where no language is given, the first letter of the text decides it."""

    def __init__(self, language: str | None) -> None:
        self._waiting = RunBuffer()
        self._normaliser: Normaliser | None = None
        self._passes = False
        if language is not None:
            self._choose(language)

    def push(self, run: SpokenRun) -> list[SpokenRun]:
        if self._normaliser is not None:
            return self._normaliser.push(run)
        if self._passes:
            return [run]
        before = len(self._waiting.text)
        self._waiting.append(run)
        letter = next((char for char in run.text[: MOST_UNDECIDED - before] if char.isalpha()), None)
        if letter is None and len(self._waiting.text) < MOST_UNDECIDED:
            return []
        self._choose(language_of_letter(letter) if letter is not None else "en")
        return self._caught_up()

    def close(self) -> list[SpokenRun]:
        if self._normaliser is None and not self._passes:
            self._choose("en")
        return [*self._caught_up(), *(self._normaliser.close() if self._normaliser is not None else ())]

    def _choose(self, language: str) -> None:
        rules = language_of(language)
        self._normaliser = Normaliser(rules) if rules is not None else None
        self._passes = rules is None

    def _caught_up(self) -> list[SpokenRun]:
        waiting = list(self._waiting.runs(0, len(self._waiting.text)))
        self._waiting = RunBuffer()
        if self._normaliser is None:
            return waiting
        return [done for run in waiting for done in self._normaliser.push(run)]
