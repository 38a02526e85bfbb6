"""Text and speech in turns: a few tokens of text, then a few of speech, while more text may still arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rhapsode.models.base import Following
from rhapsode.models.cosyvoice3.prompt import CosyLayout, CosyPrompt, CosyScript, Ids, spoken
from rhapsode.models.cosyvoice3.text import CosyText


class Turns:
    """Makes the prompts of a text that is spoken in turns: first `opening`, then each prompt that `following` returns.

    The reference comes first, its transcript and its speech in turns. If a segment's text ends before all of the
    reference is in the context, nothing was spoken yet, and the segment gets the layout of a complete text.
    """

    def __init__(self, layout: CosyLayout, script: CosyScript, text: CosyText, mix: Sequence[int]) -> None:
        """`mix`: tokens of text and of speech in a turn."""
        self._layout, self._script, self._text = layout, script, text
        self._text_turn, self._speech_turn = mix
        self._opened = False
        self._restart()

    def _restart(self) -> None:
        self._placed = 0  # tokens of transcript and segment that are in the context
        self._spoken = 0  # speech tokens of the turns so far, at most
        self._begun = False
        self._ended = False

    def opening(self) -> CosyPrompt:
        """Returns the prompt that begins a segment: context only, so that it can be prefilled before the first word."""
        rows, script = self._layout.opening(self._script), self._script
        most_text = len(script.transcript) + script.most_frames // self._speech_turn * self._text_turn
        later = len(script.speech) + most_text + script.most_frames + 1
        is_first, self._opened = not self._opened, True
        return self._linked(
            CosyPrompt(
                max_frames=0,
                length=len(rows),
                content=rows,
                positions=len(rows) + later,
                new_segment=not is_first,
                voice=script.voice,
            )
        )

    def following(self) -> CosyPrompt | Following | None:
        """Returns the next prompt, as `Prompt.following` does."""
        if self._ended:
            if not self._text.has_more():
                return None if self._text.closed else Following.NOT_YET
            self._text.segments.popleft()
            self._restart()
            return self.opening()
        segment = self._text.segments[0]
        if not segment.tokens:
            return None if self._text.closed else Following.NOT_YET
        waiting = [*self._script.transcript, *segment.tokens][self._placed :]
        count = self._text_turn if self._begun else self._text_of_reference()
        if len(waiting) >= count:
            return self._turn(waiting[:count])
        if not segment.complete:
            return Following.NOT_YET
        return self._ending(waiting, segment.tokens)

    def _text_of_reference(self) -> int:
        """Returns how many text tokens come before the first spoken token: the reference's speech needs its turns.

        If the reference's speech ends with a whole turn, one more turn of text follows it. Upstream speaks without one.
        """
        return (len(self._script.speech) // self._speech_turn + 1) * self._text_turn

    def _turn(self, text: Sequence[int]) -> CosyPrompt:
        speech = np.zeros(0, np.int64) if self._begun else self._script.speech
        rows = [np.zeros((0, 1), np.int64)]
        for i in range(0, len(text), self._text_turn):
            j = i // self._text_turn * self._speech_turn
            rows.append(self._layout.text(text[i : i + self._text_turn]))
            rows.append(self._layout.speech(speech[j : j + self._speech_turn]))
        left = self._speech_turn - len(speech) % self._speech_turn
        self._placed += len(text)
        self._spoken += left
        self._begun = True
        made = _continuing(np.concatenate(rows), self._script)
        return self._linked(replace(made, max_frames=left + 1, fill_after=left))

    def _ending(self, waiting: Sequence[int], text: Sequence[int]) -> CosyPrompt:
        """Returns the prompt that speaks the segment to its end; `waiting` is the text that the context lacks."""
        self._ended = True
        script, counted = self._script, self._script.counted + len(text)
        if not self._begun:
            return self._linked(replace(spoken(self._layout.rest(script, text), script, counted), continues=True))
        rest = replace(script, most_frames=script.most_frames - self._spoken)
        made = spoken(self._layout.ending(waiting), rest, counted)
        return self._linked(replace(made, continues=True, least_frames=0))

    def _linked(self, prompt: CosyPrompt) -> CosyPrompt:
        return replace(prompt, feed=self._text, following=self.following)


def _continuing(rows: Ids, script: CosyScript) -> CosyPrompt:
    return CosyPrompt(
        max_frames=0, length=len(rows) - 1, content=rows[:-1], last=rows[-1:], continues=True, voice=script.voice
    )
