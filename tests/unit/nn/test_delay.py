"""The delay pattern: which codes are forced, which frames become complete, and when the speech ends."""

import numpy as np
import pytest
import torch

from rhapsode.nn.delay import Delay, DelayPattern

BOOKS, CODES = 4, 10
BEGIN, END = CODES, CODES + 1
ANY = DelayPattern(BOOKS, CODES, framed=True, ends_with="any codebook", past_end="clip")
FIRST = DelayPattern(BOOKS, CODES, framed=False, ends_with="codebook 0", past_end="zero")
CPU = torch.device("cpu")


def run(pattern: DelayPattern, drawn: list[list[int]]) -> tuple[list[list[int]], list[list[int]], int | None]:
    """The rows and frames of one slot for codes that are drawn, and the step that stopped it."""
    delay = Delay(pattern, CPU)
    state, slots = delay.state(2), torch.tensor([1])
    delay.begin(slots, state)
    rows, frames = [], []
    for i, codes in enumerate(drawn):
        step = delay.advance(torch.tensor([codes]), slots, state)
        rows += step.row.tolist()
        frames += step.frame[step.emitted].tolist()
        if step.stopped[0]:
            return rows, frames, i
    return rows, frames, None


@pytest.mark.parametrize("pattern", [ANY, FIRST], ids=["v2", "v3"])
def test_a_codebook_is_forced_until_its_first_code_is_due(pattern: DelayPattern) -> None:
    rows, _, _ = run(pattern, [[1, 2, 3, 4]] * 5)
    assert rows == [[1, BEGIN, BEGIN, BEGIN], [1, 2, BEGIN, BEGIN], [1, 2, 3, BEGIN], [1, 2, 3, 4], [1, 2, 3, 4]]


@pytest.mark.parametrize("pattern", [ANY, FIRST], ids=["v2", "v3"])
def test_frames_of_delayed_rows_are_the_frames_again(pattern: DelayPattern) -> None:
    frames = np.random.default_rng(0).integers(CODES, size=(7, BOOKS))
    rows = pattern.delayed(frames)
    assert len(rows) == 7 + BOOKS - 1 + 2 * pattern.framed
    if pattern.framed:
        assert (rows[0] == BEGIN).all()
        assert (rows[-1] == END).all()
        rows = rows[1:]  # generation starts behind it
    else:
        assert rows[-1].tolist() == [END] * (BOOKS - 1) + [int(frames[-1, -1])]
    _, heard, stopped = run(pattern, rows.tolist())
    assert heard[: len(frames)] == frames.tolist()
    assert pattern.silent_steps == BOOKS - 1
    assert stopped is not None


def test_one_frame_is_delayed_too() -> None:
    assert FIRST.delayed(np.array([[1, 2, 3, 4]])).tolist() == [
        [1, BEGIN, BEGIN, BEGIN], [END, 2, BEGIN, BEGIN], [END, END, 3, BEGIN], [END, END, END, 4]
    ]  # fmt: skip


@pytest.mark.parametrize("own", [True, False], ids=["drawn", "forced"])
@pytest.mark.parametrize("book", range(BOOKS))
def test_any_codebook_ends_the_speech_and_the_others_follow(book: int, own: bool) -> None:
    """If the last codebook does not draw the end by itself, it is forced one step later, after a clipped frame."""
    at, drawn = 6, [[1, 2, 3, 4] for _ in range(12)]
    drawn[at][book] = END
    if own:
        drawn[at + BOOKS - 1][BOOKS - 1] = END
    rows, frames, stopped = run(ANY, drawn)
    last = at + BOOKS - 1 if own else at + BOOKS
    assert stopped == last
    assert rows[-1] == [END] * BOOKS
    for later in range(1, last - at):
        assert rows[at + later] == [END] * later + [1, 2, 3, 4][later:]
    assert len(frames) == last - (BOOKS - 1)  # the last step completes none
    assert all(0 <= code < CODES for frame in frames for code in frame)
    if at - book < len(frames):
        assert frames[at - book][book] == CODES - 1  # clipped, not zeroed


def test_only_the_first_codebook_ends_the_speech_once_a_frame_is_complete() -> None:
    drawn = [[1, 2, 3, 4] for _ in range(16)]
    drawn[2][0] = END  # the first frame is not complete
    drawn[BOOKS - 1][0] = END  # the row that completes it
    drawn[6][2] = END  # another codebook
    drawn[8][0] = END
    rows, frames, stopped = run(FIRST, drawn)
    assert stopped == 8 + BOOKS - 2
    assert rows[9:] == [[1, 2, 3, 4]] * 2  # nothing is forced
    assert len(frames) == 8
    assert frames[2] == [0, 2, 3, 4]  # an end that was ignored is zeroed
    assert frames[4] == [1, 2, 0, 4]


def test_slots_are_independent_and_begin_again() -> None:
    delay = Delay(ANY, CPU)
    state = delay.state(3)
    both = torch.tensor([2, 0])
    delay.begin(both, state)
    for _ in range(5):
        delay.advance(torch.tensor([[1, 1, 1, 1], [2, 2, 2, 2]]), both, state)
    delay.begin(torch.tensor([0]), state)
    step = delay.advance(torch.tensor([[3, 3, 3, 3], [4, 4, 4, 4]]), both, state)
    assert step.emitted.tolist() == [True, False]
    assert step.row.tolist() == [[3, 3, 3, 3], [4, BEGIN, BEGIN, BEGIN]]
    assert step.frame[0].tolist() == [1, 1, 1, 3]


def test_two_codebooks_are_the_smallest_pattern() -> None:
    pattern = DelayPattern(2, CODES, framed=False, ends_with="codebook 0", past_end="zero")
    rows, frames, stopped = run(pattern, [[1, 2], [3, 4], [END, 5]])
    assert (frames, stopped) == ([[1, 4], [3, 5]], 2)
    assert rows[0] == [1, BEGIN]
