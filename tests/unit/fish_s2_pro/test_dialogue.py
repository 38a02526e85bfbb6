"""Texts are cut into turns, batches and sentences."""

import pytest

from rhapsode.models.fish_s2_pro.dialogue import TAG, batches, canonical, turns
from rhapsode.text.turns import TurnStream

A, B = "<|speaker:0|>", "<|speaker:1|>"


def test_a_text_without_tags_is_one_turn_as_it_stands() -> None:
    assert turns("  Hello. [sigh] \n") == ["  Hello. [sigh] \n"]


def test_turns_begin_with_their_tags_and_what_is_before_them_is_dropped() -> None:
    assert turns(f"dropped {A} One. {B}Two. ") == [f"{A} One.", f"{B}Two."]


def test_a_tag_may_be_written_without_bars() -> None:
    assert canonical("<speaker:12>Hi <speaker:x> <|speaker:3|>") == "<|speaker:12|>Hi <speaker:x> <|speaker:3|>"


def test_a_speaker_s_number_may_have_any_number_of_digits() -> None:
    huge = f"<|speaker:{'9' * 10_000}|>"
    assert turns(f"{huge} Hi.<|speaker:007|>Ho.") == [f"{huge} Hi.", "<|speaker:007|>Ho."]


def test_batches_hold_five_turns_at_most_and_so_many_bytes() -> None:
    assert batches(["a"] * 7, 100) == ["a\na\na\na\na", "a\na"]
    assert batches(["aaa", "bb", "ü", "a long one", "c"], 5) == ["aaa\nbb", "ü", "a long one", "c"]


def pieces(text: str, size: int) -> list[str]:
    """What a stream makes of a text that comes in pieces of this size."""
    stream, found = TurnStream(TAG, 300), []
    for i in range(0, len(text), size):
        assert stream.push(text[i : i + size]) == ()
        while (turn := stream.next_turn()) is not None:
            found.append(turn)
    stream.close()
    stream.close()
    while (turn := stream.next_turn()) is not None:
        found.append(turn)
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5, 17, 1000])
def test_appended_text_is_spoken_sentence_by_sentence_by_who_spoke_last(size: int) -> None:
    text = f"{A}Good morning. How are you? <speaker:1>Fine, <b>thank</b> you.{A} Good. <|speaker: 4"
    assert pieces(text, size) == [
        f"{A}Good morning.", f"{A}How are you?", f"{B}Fine, <b>thank</b> you.", f"{A}Good.", f"{A}<|speaker: 4"
    ]  # fmt: skip


def test_a_sentence_is_not_spoken_before_it_is_certain() -> None:
    stream = TurnStream(TAG, 300)
    stream.push("It costs 3")
    stream.push(".50 today")
    assert stream.next_turn() is None
    stream.push(". Thank you")
    stream.push(" all.")
    assert stream.next_turn() == "It costs 3.50 today."
    assert stream.next_turn() is None
    stream.close()
    assert stream.next_turn() == "Thank you all."
    assert (stream.next_turn(), stream.steps()) == (None, None)
