"""Which prompts a burst launches together: the most urgent one, and others of about the same length."""

import pytest

from rhapsode.engine.burst_batch import Candidate, burst_batch, rows_of

PLENTY_S, COMFORT_S = 5.0, 1.0


def batch(*given: tuple[int, float], rows: int = 8, size: int = 10_000) -> list[int]:
    return burst_batch([Candidate(length, False, left_s) for length, left_s in given], rows, size, COMFORT_S)


def test_without_prompts_there_is_no_launch() -> None:
    assert batch() == []


def test_the_most_urgent_prompt_is_launched_and_of_equals_the_oldest() -> None:
    assert batch((20, 0.5), (90, 0.1), (300, 0.1))[0] == 1
    assert batch((20, 0.1), (90, 0.1), rows=1) == [0]


def test_only_prompts_that_are_padded_to_the_same_length_join() -> None:
    assert batch((40, 0.0), (48, 0.1), (49, 0.1), (33, 0.2), (32, 0.2)) == [0, 1, 3]


def test_the_short_ones_are_all_alike() -> None:
    assert batch((1, 0.0), (16, 0.0), (9, 0.0), (17, 0.0)) == [0, 1, 2]


def test_prompts_that_wait_for_another_kind_of_launch_do_not_join() -> None:
    found = [Candidate(40, True, 0.0), Candidate(40, False, 0.1), Candidate(41, True, 0.2)]
    assert burst_batch(found, 8, 10_000, COMFORT_S) == [0, 2]


def test_who_has_plenty_does_not_make_a_launch_longer_that_others_need_soon() -> None:
    assert batch((40, 0.2), (40, PLENTY_S), (40, 0.9)) == [0, 2]
    assert batch((40, PLENTY_S), (40, PLENTY_S + 1)) == [0, 1]


@pytest.mark.parametrize(("size", "rows"), [(48 * 8, 3), (48 * 2, 2), (48, 1), (10, 1)])
def test_a_launch_has_no_more_than_its_memory_allows_and_at_least_one_prompt(size: int, rows: int) -> None:
    assert len(batch((48, 0.0), (47, 0.0), (46, 0.0), size=size)) == rows
    assert rows_of(48, 8, size) == min(8, max(1, size // 48))


def test_a_launch_has_no_more_rows_than_the_worker_allows() -> None:
    assert batch(*[(20, 0.0)] * 5, rows=2) == [0, 1]
