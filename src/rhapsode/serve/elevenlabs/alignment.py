"""The alignment of a context: times of its characters, in the messages of a WebSocket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rhapsode.alignment.words import WordTime
from rhapsode.serve.elevenlabs.characters import CharacterTime, CharacterTimes, in_pieces
from rhapsode.serve.service import Service
from rhapsode.text.language import AUTO, code_of
from rhapsode.text.normalise.language import language_of_letter


def has_aligner(service: Service, language: str | None, text: str) -> bool:
    """Returns whether the words of a text can be found in its speech. Without a language its first letter decides."""
    only = service.info.languages[0] if len(service.info.languages) == 1 else AUTO
    code = code_of(language) if language else AUTO
    if code != AUTO or only != AUTO:
        return (only if code == AUTO else code) in service.word_languages
    letter = next(filter(str.isalpha, text), None)
    return letter is not None and language_of_letter(letter) in ("en", *service.word_languages)


class ContextAlignment:
    """Makes the alignment of one context, whose text is spoken in one or several requests.

    Times count from the start of the context, or from the end of the alignment before: clients that do not ask for
    alignments with the audio add up the lengths of all that they get.
    """

    def __init__(self, *, from_start: bool) -> None:
        self._from_start = from_start
        self._ended_s = 0.0
        self._told_ms = 0
        self._times = CharacterTimes()

    def add(self, text: str, words: Sequence[WordTime]) -> Iterator[dict[str, Any]]:
        """Yields the characters up to the last of these words of the current request, in pieces."""
        return map(self._alignment, in_pieces(self._times.add(text, words)))

    def end(self, text: str, heard_s: float, *, is_aligned: bool) -> Iterator[dict[str, Any]]:
        """Yields the rest of a request whose speech has `heard_s` seconds, and begins the next request.

        A blank follows it, which lasts as long as the speech: it divides the last word from the next request's first.
        """
        rest = self._times.rest(text) if is_aligned else []
        begun_s, self._ended_s = self._ended_s, self._ended_s + heard_s
        self._times = CharacterTimes(self._ended_s)
        if is_aligned:
            blank_s = rest[-1].end_s if rest else max(begun_s, self._told_ms / 1000)
            rest.append(CharacterTime(" ", blank_s, max(blank_s, self._ended_s)))
        return map(self._alignment, in_pieces(rest))

    def _alignment(self, times: Sequence[CharacterTime]) -> dict[str, Any]:
        since_ms = 0 if self._from_start else self._told_ms
        edges = [(round(1000 * start_s), round(1000 * end_s)) for _, start_s, end_s in times]
        self._told_ms = edges[-1][1]
        return {
            "chars": [char for char, _, _ in times],
            "charStartTimesMs": [start_ms - since_ms for start_ms, _ in edges],
            "charDurationsMs": [end_ms - start_ms for start_ms, end_ms in edges],
        }
