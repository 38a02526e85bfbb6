"""Times of characters, from the times of words."""

from rhapsode.alignment.words import WordTime
from rhapsode.serve.elevenlabs.characters import CharacterTimes

TEXT = "Hi you."
WORDS = [WordTime("Hi", 0.1, 0.3, 0, 2), WordTime("you", 0.5, 0.8, 3, 6)]


def test_characters_share_the_time_of_their_word() -> None:
    times = CharacterTimes(TEXT)
    found = times.add(WORDS)
    assert found == {
        "characters": list("Hi you"),
        "character_start_times_seconds": [0.1, 0.2, 0.3, 0.5, 0.6, 0.7],
        "character_end_times_seconds": [0.2, 0.3, 0.5, 0.6, 0.7, 0.8],
    }
    assert times.rest() == {
        "characters": ["."],
        "character_start_times_seconds": [0.8],
        "character_end_times_seconds": [0.8],
    }


def test_it_does_not_matter_when_words_become_known() -> None:
    times = CharacterTimes(TEXT)
    parts = [times.add(WORDS[:1]), times.add(()), times.add(WORDS[1:]), times.rest(), times.rest()]
    assert parts[1] is parts[4] is None
    assert "".join(char for part in parts if part for char in part["characters"]) == TEXT


def test_a_word_that_was_left_out_takes_no_time() -> None:
    found = CharacterTimes("a b").add([WordTime("a", 0.0, 0.1, 0, 1), WordTime("b", 0.1, 0.1, 2, 3)])
    assert found is not None
    assert found["character_start_times_seconds"] == [0.0, 0.1, 0.1]


def test_words_out_of_order_never_go_back_in_time_or_text() -> None:
    times = CharacterTimes("ab")
    found = times.add([WordTime("b", 0.5, 0.6, 1, 2), WordTime("a", 0.1, 0.2, 0, 1)])
    assert found is not None
    assert "".join(found["characters"]) == "ab"
    assert found["character_end_times_seconds"] == [0.5, 0.6]
