"""Text in pieces becomes requests: one that grows, or one per sentence."""

import pytest

from rhapsode.errors import InvalidRequest
from rhapsode.serve.socket.messages import understand
from rhapsode.serve.socket.utterance import Piece, Utterance


class Listening:
    """What a running request is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def append(self, text: str) -> None:
        self.told.append(text)

    def finish_text(self) -> None:
        self.told.append("END")


def texts(utterance: Utterance) -> list[tuple[str, bool]]:
    return [(piece.text, piece.closed) for piece in utterance.pieces]


def test_a_piece_grows_until_it_is_flushed() -> None:
    utterance = Utterance(0, by_sentence=False)
    utterance.append("One. ")
    utterance.append("Two")
    assert texts(utterance) == [("One. Two", False)]
    utterance.flush()
    utterance.append("Three")
    assert texts(utterance) == [("One. Two", True), ("Three", False)]


def test_a_running_request_hears_of_more_text_and_of_its_end() -> None:
    piece = Piece("One", speech=Listening())
    piece.append(" two")
    piece.close()
    piece.close()
    assert piece.speech.told == [" two", "END"]
    assert piece.text == "One two"


def test_silence_begins_nothing() -> None:
    utterance = Utterance(0, by_sentence=False)
    utterance.append(" \n")
    utterance.flush()
    assert texts(utterance) == []


def test_sentences_are_pieces_once_they_are_certain() -> None:
    utterance = Utterance(0, by_sentence=True)
    utterance.append("One is here. Two is")
    assert texts(utterance) == [("One is here.", True)]
    utterance.append(" there. ")
    utterance.flush()
    utterance.flush()
    assert texts(utterance) == [("One is here.", True), ("Two is there.", True)]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ('{"type": "session.config", "voice": "x"}', "config"),
        ('{"type": "session.update"}', "config"),
        ('{"type": "input.text", "text": ""}', "text"),
        ('{"type": "input.flush"}', "flush"),
        ('{"type": "input.done"}', "done"),
        ('{"type": "input.cancel"}', "cancel"),
        ('{"type": "session.close"}', "close"),
    ],
)
def test_messages_are_understood(raw: str, kind: str) -> None:
    assert understand(raw).kind == kind


def test_an_unknown_message_gets_the_nearest_known_one() -> None:
    with pytest.raises(InvalidRequest, match=r"did you mean 'input\.text'"):
        understand('{"type": "input.txt"}')


def test_a_pair_of_surrogates_may_be_cut_in_two_and_a_lone_one_is_dropped() -> None:
    utterance = Utterance(0, by_sentence=True)
    utterance.append("One \ud83d")
    utterance.append("\ude00 is \udc00here. Two \ud800is there.")
    utterance.flush()
    assert texts(utterance) == [("One 😀 is here.", True), ("Two is there.", True)]


@pytest.mark.parametrize("by_sentence", [False, True])
def test_text_without_a_letter_begins_nothing_and_is_kept_for_what_follows(by_sentence: bool) -> None:
    utterance = Utterance(0, by_sentence)
    utterance.append("🎉 ")
    utterance.flush()
    assert texts(utterance) == []
    utterance.append("🎉 ")
    assert texts(utterance) == []
    utterance.append("Party!")
    utterance.flush()
    assert texts(utterance) == [("🎉 Party!", True)]
