"""What one request says: its text after the front end, cut into sections at pauses and changes of pace."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rhapsode.alignment.text import WordText
from rhapsode.checking.dialogue import MOST_PAUSE_S, SEGMENT_PAUSE_S, in_segment, speakers_of
from rhapsode.errors import InvalidRequest, TextTooLong
from rhapsode.models.base import Following
from rhapsode.text.clean import is_speakable
from rhapsode.text.events import Bookmark, Pause, RateChange, TextEvent
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.spoken import SpokenRun, SpokenText
from rhapsode.types import Segment, SpeechRequest, Voice

DRAWS = 2**20
"""The distance between the draws of two sections: more than any section has prompts."""
GROWTH = 10
"""A text as it is spoken may have this many times the characters that a written text may have."""
CHARS_PER_POSITION = 16
"""No model says more characters in one position: it would speak ten times as fast as people do."""
PIECE_CHARS = 1024
"""Read at once, so that a text that turns out to be too long is not read to its end."""


@dataclass
class SpokenSection:
    """Words that are spoken without a pause, at one pace."""

    pause_s: float = 0.0
    """The silence before it."""
    pace: float = 1.0
    voice: Voice | None = None
    """In a dialogue: the voice that says it. `speaker` is the number of that voice."""
    speaker: int = 0
    draw: int = 0
    """Added to the seed. It does not depend on how many prompts the sections before have."""
    runs: list[SpokenRun] = field(default_factory=list)
    closed: bool = False
    untaken: str = ""
    """The text that no stage has been given yet."""
    is_begun: bool = False
    """Whether it has a letter or a digit. It is noted as text arrives: a text without any may be long."""

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)

    def say(self, run: SpokenRun) -> None:
        self.runs.append(run)
        self.untaken += run.text
        self.is_begun = self.is_begun or is_speakable(run.text)


class Appended(NamedTuple):
    """What text that arrived means for a request that is running."""

    text: str = ""
    """The new text of the section that is spoken now."""
    final: bool = False
    """That section is complete."""
    more: bool = False
    """There may be new text for a section that is not spoken yet."""


class SpeechScript:
    """The sections of one request. Text may be appended while they are spoken; `lock` keeps appended text in order."""

    def __init__(
        self,
        request: SpeechRequest,
        settings: TextSettings | None = None,
        most_chars: int | None = None,
        words: WordText | None = None,
        most_positions: int | None = None,
    ) -> None:
        """Raises `InvalidRequest` if the text is not valid for its input type, or too long. `words` gets the same text.
        A section has at most `most_positions`."""
        settings = settings or TextSettings()
        self.lock = threading.RLock()
        self.bookmarks: list[Bookmark] = []
        self.tail_s = 0.0
        """The silence after the last word."""
        self.request = request
        self.words = words
        self._front_end = FrontEnd(settings)
        self._is_plain = settings.input_type == "text"
        self._most_chars = most_chars and most_chars * GROWTH
        whole = None if request.text_open else most_positions  # else the first words are heard anyway
        self._most_section_chars = whole and whole * CHARS_PER_POSITION
        self._chars = self._section_chars = 0
        self._sections = [SpokenSection()]
        self._current = -1  # the index of the section that is spoken
        self._closed = False
        if request.segments:
            self._say_segments(request.segments, settings)
            return
        self._read(request.text)
        if not request.text_open:
            self._close()
            if not self._is_plain and not self._sections[0].runs:
                raise InvalidRequest("the text has no words: there is nothing to say.", param="input")

    @property
    def sections(self) -> tuple[SpokenSection, ...]:
        return tuple(self._sections)

    def spoken(self) -> SpokenText:
        """Returns all words known so far, with the written characters they stand for."""
        with self.lock:
            return SpokenText(tuple(run for section in self._sections for run in section.runs))

    def append(self, text: str, final: bool) -> Appended:
        """Adds more text; returns what it means for the section that is spoken now."""
        with self.lock:
            current = self._sections[self._current] if self._current >= 0 else None
            was_closed = current is None or current.closed
            self._read(text)
            if final:
                self._close()
            if current is None or was_closed:
                return Appended(more=True)
            text, current.untaken = current.untaken, ""
            return Appended(text, current.closed, more=self._sections[-1] is not current)

    @property
    def is_empty(self) -> bool:
        """Whether the text is complete and has no words."""
        return self._closed and not self._is_plain and not self._is_begun(0)

    def first(self) -> SpeechRequest | None:
        """Returns the request of the first section, once; `None` as long as its beginning is not known."""
        with self.lock:
            if self._current >= 0 or not (self._is_plain or self._is_begun(0)):
                return None
            return self._take(0)

    def next(self) -> SpeechRequest | Following | None:
        """Returns the request of the next section; `None` if there is none, or `NOT_YET` if one may come."""
        with self.lock:
            if self._is_plain:
                return None
            index = self._current + 1
            if self._is_begun(index):
                return self._take(index)
            return None if self._closed else Following.NOT_YET

    @property
    def current(self) -> SpokenSection:
        """The section that is spoken."""
        return self._sections[max(0, self._current)]

    # --- inside ---

    def _is_begun(self, index: int) -> bool:
        return index < len(self._sections) and self._sections[index].is_begun

    def _take(self, index: int) -> SpeechRequest:
        self._current = index
        section = self._sections[index]
        text, section.untaken = section.untaken, ""
        if text == self.request.text and section.voice is None and not self.request.segments:
            return self.request  # most texts are spoken as they are written
        return replace(self.request, text=text, voice=section.voice or self.request.voice, segments=())

    def _read(self, text: str) -> None:
        if self.words is not None:
            self.words.push(text)
        for start in range(0, len(text), PIECE_CHARS):
            self._add(self._front_end.push(text[start : start + PIECE_CHARS]))

    def _add(self, events: list[TextEvent]) -> None:
        for event in events:
            match event:
                case Pause(seconds):
                    self._break(self._sections[-1].pace, seconds)
                case RateChange(rate):
                    if rate != self._sections[-1].pace:
                        self._break(rate, 0.0)
                case Bookmark():
                    self.bookmarks.append(event)
                case SpokenRun():
                    self._say(event)

    def _say_segments(self, segments: Sequence[Segment], settings: TextSettings) -> None:
        """Makes sections of a dialogue: at least one of every segment, in its voice."""
        self._is_plain = False
        speakers = speakers_of(segments)
        for index, (segment, speaker) in enumerate(zip(segments, speakers, strict=True)):
            pause_s = (SEGMENT_PAUSE_S if index else 0.0) if segment.pause_s is None else segment.pause_s
            self._break(1.0, pause_s)
            section = self._sections[-1]
            section.voice, section.speaker = segment.voice, speaker
            self._front_end = FrontEnd(settings)
            if self.words is not None:  # words are located in the text of all segments, joined by line breaks
                if index:
                    self.words.next_document()
                self.words.push(segment.text)
            try:
                self._add(self._front_end.push(segment.text))
                self._add(self._front_end.close())
            except InvalidRequest as error:
                raise in_segment(error, index) from None
            if not section.is_begun:
                raise in_segment(InvalidRequest("the text has no words: there is nothing to say."), index)
        if self.words is not None:
            self.words.close()
        self._end()

    def _say(self, run: SpokenRun) -> None:
        section = self._sections[-1]
        if not section.runs and not self._is_plain:
            run = run.part(len(run.text) - len(run.text.lstrip()), len(run.text))
        if run.text:
            section.say(run)
        self._chars += len(run.text)
        self._section_chars += len(run.text)
        if self._most_chars is not None and self._chars > self._most_chars:
            raise TextTooLong(f"the text as it is spoken has more than {self._most_chars} characters.", param="input")
        if self._most_section_chars is not None and self._section_chars > self._most_section_chars:
            raise TextTooLong(
                f"the text has more than {self._most_section_chars} characters without a pause: too many for "
                "limits.max_positions.",
                param="input",
            )

    def _break(self, pace: float, pause_s: float) -> None:
        """Ends the section, if it has words, and begins one with another pace or after a pause."""
        section = self._sections[-1]
        if section.is_begun:
            section.closed = True
            section = SpokenSection(voice=section.voice, speaker=section.speaker, draw=len(self._sections) * DRAWS)
            self._sections.append(section)
        section.runs, section.untaken = [], ""  # a section of signs alone is not spoken
        self._section_chars = 0
        section.pace, section.pause_s = pace, section.pause_s + pause_s
        if section.pause_s > MOST_PAUSE_S:
            raise InvalidRequest(f"a pause lasts at most {MOST_PAUSE_S:g} s in all.", param="input")

    def _close(self) -> None:
        if self.words is not None:
            self.words.close()
        self._add(self._front_end.close())
        self._end()

    def _end(self) -> None:
        self._closed = True
        last = self._sections[-1]
        if len(self._sections) > 1 and not last.is_begun:
            self.tail_s = last.pause_s
            self._sections.pop()
        elif not self._is_plain and not last.is_begun:
            last.runs, last.untaken = [], ""
        self._sections[-1].closed = True
