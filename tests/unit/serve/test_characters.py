"""Times of characters, from the times of words."""

import pytest

from rhapsode.alignment.words import WordTime
from rhapsode.serve.elevenlabs.alignment import ContextAlignment
from rhapsode.serve.elevenlabs.characters import CharacterTime, CharacterTimes

TEXT = "Hi you."
WORDS = [WordTime("Hi", 0.1, 0.3, 0, 2), WordTime("you", 0.5, 0.8, 3, 6)]


def spelt(times: list[CharacterTime]) -> str:
    return "".join(time.char for time in times)


def test_characters_share_the_time_of_their_word() -> None:
    times = CharacterTimes()
    found = times.add(TEXT, WORDS)
    assert spelt(found) == "Hi you"
    assert [time.start_s for time in found] == pytest.approx([0.1, 0.2, 0.3, 0.5, 0.6, 0.7])
    assert [time.end_s for time in found] == pytest.approx([0.2, 0.3, 0.5, 0.6, 0.7, 0.8])
    assert times.rest(TEXT) == [(".", 0.8, 0.8)]


def test_it_does_not_matter_when_words_become_known() -> None:
    times = CharacterTimes()
    parts = [times.add(TEXT, WORDS[:1]), times.add(TEXT, ()), times.add(TEXT, WORDS[1:]), times.rest(TEXT)]
    assert parts[1] == times.rest(TEXT) == []
    assert "".join(map(spelt, parts)) == TEXT


def test_a_word_that_was_left_out_takes_no_time() -> None:
    words = [WordTime("a", 0.0, 0.1, 0, 1), WordTime("b", 0.1, 0.1, 2, 3)]
    assert [time.start_s for time in CharacterTimes().add("a b", words)] == [0.0, 0.1, 0.1]


def test_words_out_of_order_never_go_back_in_time_or_text() -> None:
    found = CharacterTimes().add("ab", [WordTime("b", 0.5, 0.6, 1, 2), WordTime("a", 0.1, 0.2, 0, 1)])
    assert spelt(found) == "ab"
    assert [time.end_s for time in found] == [0.5, 0.6]


@pytest.mark.parametrize("from_start", [True, False])
def test_clients_find_the_same_times_in_whichever_way_they_read_an_alignment(from_start: bool) -> None:
    """From the start of the context, or added up; requests without an alignment in between take their time."""
    context = ContextAlignment(from_start=from_start)
    parts = [context.add(TEXT, WORDS[:1]), context.add(TEXT, WORDS[1:]), context.end(TEXT, 1.0, is_aligned=True)]
    assert context.add("7", ()) is context.end("7", 0.5, is_aligned=False) is None
    parts += [context.add(TEXT, WORDS), context.end(TEXT, 1.0, is_aligned=True)]
    spoken, began_ms, at_ms = "", {}, 0
    for part in parts:
        assert part is not None
        for char, start_ms in zip(part["chars"], part["charStartTimesMs"], strict=True):
            began_ms[len(spoken)] = start_ms if from_start else at_ms + start_ms
            spoken += char
        at_ms += part["charStartTimesMs"][-1] + part["charDurationsMs"][-1]
    assert spoken == f"{TEXT} {TEXT} "
    assert [began_ms[spoken.index("you")], began_ms[spoken.rindex("you")]] == [500, 2000]
    assert from_start or at_ms == 2500
