"""A streaming Viterbi search: finds the words of a known text in the output of a CTC acoustic model."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhapsode.alignment.decided import DecidedPath, FoundWord
from rhapsode.alignment.graph import BLANK, FORBIDDEN, Floats, TextGraph
from rhapsode.alignment.model import FRAME_BY_FRAME, FrameBlocks

WINDOW = 200
"""How many states are searched, from the last decided one on: about 20 words."""
SKIPPED_WORD = 20.0
"""Cost of a word that is not said, in nats."""
OTHER_SPEECH = 2.0
"""Cost of a frame of speech that is not in the text."""
UNSAID_LETTER = 4.0
"""Cost of a letter that is missing where the audio ends inside a word."""
SKIP = 3
"""The move from a gap to the next one."""


class _SearchStep(NamedTuple):
    """One frame that is not decided yet, with the moves by which the best paths came to each state of the window."""

    low: int
    moves: NDArray[np.uint8]
    columns: Floats
    is_quiet: bool


class WordSearch:
    """Takes words and frames, returns words with their frames: each word once, in order.

    A path moves on by one state or, past a blank or a gap, by two. From gap to gap it skips a word that is not said.
    A state is decided for good at the end of the block that contains the frame `lag` frames later. So time and memory
    per frame are bounded. Blocks count from the start, so the result does not depend on how the audio is cut.
    """

    def __init__(self, symbols: Sequence[str], lag: int, blocks: FrameBlocks = FRAME_BY_FRAME, late: int = 0) -> None:
        """`symbols`, `blocks` and `late`: those of the acoustic model."""
        self._space = symbols.index(" ")
        self._lag, self._blocks = lag, blocks
        self._graph = TextGraph(len(symbols))
        self._path = DecidedPath(self._graph, late)
        self._low = 0  # the first state of the window: the last one decided
        self._scores = np.zeros(1, np.float32)
        self._window = self._graph.window(0, 1)
        self._steps: deque[_SearchStep] = deque()
        self._frames = 0
        self._closed = False

    def add(self, letters: Sequence[int]) -> None:
        """Appends a word to the text, as symbols of the acoustic model."""
        if self._closed:
            raise ValueError("the text is closed")
        self._graph.add(letters)
        self._move_window()

    def close(self) -> None:
        """Ends the text."""
        self._closed = True

    @property
    def said_at(self) -> int | None:
        """The frame in which the last word ends, once the text is complete and all its words are decided."""
        return self._path.end if self._closed and self._path.words_ended == self._graph.words else None

    @property
    def frames(self) -> int:
        """How many frames were searched."""
        return self._frames

    def feed(self, log_probs: Floats, quiet: NDArray[np.bool_]) -> list[FoundWord]:
        """Takes frames `[frames, symbols]`, and which of them are near silence; returns the words that are decided."""
        found: list[FoundWord] = []
        for frame, is_quiet in zip(log_probs, quiet.tolist(), strict=True):
            self._step(frame, is_quiet)
            if self._blocks.left(self._frames) == 0 and self._frames > self._lag:
                found += self._decide(len(self._steps) - self._lag, int(np.argmax(self._scores)))
        return found

    def finish(self) -> list[FoundWord]:
        """Ends the audio; returns the remaining words, including those that were not said."""
        self._closed = True
        states = range(self._low, self._low + len(self._scores))
        costs = np.array([self._unsaid_cost(state) for state in states], np.float32)
        found = self._decide(len(self._steps), int(np.argmax(self._scores - costs)))
        return found + self._path.finish()

    def _step(self, frame: Floats, is_quiet: bool) -> None:
        """Runs one frame of the Viterbi search: each state takes its best predecessor, and the move to it is kept."""
        scores, window = self._scores, self._window
        columns = np.empty(len(frame) + 1, np.float32)
        columns[:-1] = frame
        columns[-1] = max(frame[BLANK], frame[self._space], frame.max() - OTHER_SPEECH)
        best = scores.copy()
        moves = np.zeros(len(scores), np.uint8)
        _improve(best[1:], moves[1:], scores[:-1], 1)
        _improve(best[2:], moves[2:], scores[:-2] + window.by_two, 2)
        gaps = window.gaps
        if len(gaps) > 1:
            skipped = scores[gaps[:-1]] - SKIPPED_WORD
            better = skipped > best[gaps[1:]]
            best[gaps[1:][better]] = skipped[better]
            moves[gaps[1:][better]] = SKIP
        best += columns[window.labels]
        self._scores = best - best.max()
        self._steps.append(_SearchStep(self._low, moves, columns, is_quiet))
        self._frames += 1

    def _decide(self, count: int, last: int) -> list[FoundWord]:
        """Decides the states of the next `count` frames: those of the path that ends in state `last` of the window."""
        state, path = self._low + last, []
        for back, step in enumerate(reversed(self._steps)):
            if len(self._steps) - back <= count:
                path.append(state)
            move = int(step.moves[state - step.low])
            state = self._graph.gap_before(state) if move == SKIP else state - move
        found: list[FoundWord] = []
        for state in reversed(path):
            step = self._steps.popleft()
            found += self._path.take(state, step.columns, step.is_quiet)
        self._move_window()
        return found

    def _move_window(self) -> None:
        """Moves the window to the last decided state, and adds the states that are now within reach."""
        low, high = self._path.state, min(self._path.state + WINDOW, len(self._graph))
        scores = np.full(high - low, FORBIDDEN, np.float32)
        kept = self._scores[low - self._low :]
        scores[: len(kept)] = kept
        self._low, self._scores, self._window = low, scores, self._graph.window(low, high)

    def _unsaid_cost(self, state: int) -> float:
        """Returns the cost of the text that is missing where the audio ends in this state."""
        graph = self._graph
        words = graph.words - graph.word_of(state) - (not graph.is_gap(state))
        return words * SKIPPED_WORD + graph.letters_after(state) * UNSAID_LETTER


def _improve(best: Floats, moves: NDArray[np.uint8], scores: Floats, move: int) -> None:
    """Takes the scores that are better than the best so far, in place."""
    better = scores > best
    np.copyto(best, scores, where=better)
    moves[better] = move
