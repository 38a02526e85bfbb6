"""The dummy says what it was given, all of it, or refuses."""

import pytest

from rhapsode.errors import RhapsodeError
from rhapsode.models.base import StageContext
from rhapsode.models.dummy.prompt import MAX_TEXT, DummyPrepare, tokenize
from rhapsode.models.dummy.spec import SPEC, DummyOptions
from rhapsode.types import SpeechRequest

PREPARE = DummyPrepare(StageContext(SPEC, None, {}, "cpu", "float32"))


@pytest.mark.parametrize("length", [1, 7, MAX_TEXT])
def test_a_text_becomes_one_token_per_letter(length: int) -> None:
    text = ("abcdefg" * length)[:length]
    assert PREPARE(SpeechRequest(text, options=DummyOptions())).tokens == tokenize(text)


def test_a_text_too_long_to_be_held_is_refused_not_cut_short() -> None:
    with pytest.raises(RhapsodeError, match=str(MAX_TEXT)):
        PREPARE(SpeechRequest("a" * (MAX_TEXT + 1), options=DummyOptions()))
