from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.errors import InvalidRequest
from rhapsode.voices.name import checked_name, name_key


@pytest.mark.parametrize(
    "name",
    ["a", "Anna", "my voice 2", "v1.5_final-mix", "Ærøskøbing", "さくら", "हिन्दी", "صوت", "한국어", "9", "x" * 64],
)
def test_letters_and_digits_of_any_script_make_a_name(name):
    assert checked_name(name) == name


def test_a_name_is_composed_and_trimmed():
    assert checked_name("  Zoe\u0308 ") == "Zoë"


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "x" * 65,
        ".",
        "..",
        ".hidden",
        " .hidden",
        "../../etc/passwd",
        "a/b",
        "a\\b",
        "C:voice",
        "a\x00b",
        "a\nb",
        "a\tb",
        "a\u202eb",
        "a\u2066b",
        "a\u200bb",
        "\ufeffa",
        "a\u00a0b",
        "a\u2028b",
        "a%2fb",
        "a\uff0fb",
        "a\u2044b",
        "<b>",
        "a'b",
        "\ud800",
        "---",
        "_",
        "🎤",
        "voice_0123456789ab",
        "VOICE_0123456789AB",
    ],
)
def test_a_name_that_could_be_a_path_a_trick_or_an_id_is_refused(name):
    with pytest.raises(InvalidRequest, match=r"1 to 64 letters") as caught:
        checked_name(name)
    assert caught.value.param == "name"


@given(st.text(st.characters(), max_size=70))
def test_a_name_that_passes_is_safe_and_stays_as_it_is(name):
    try:
        checked = checked_name(name)
    except InvalidRequest:
        return
    assert checked == checked_name(checked) == unicodedata.normalize("NFC", checked)
    assert 1 <= len(checked) <= 64
    assert not any(unicodedata.category(char)[0] in "CZ" and char != " " for char in checked)
    assert not set(checked) & set("/\\:")


@pytest.mark.parametrize(
    ("one", "other"), [("Anna", "aNNA"), ("Straße", "STRASSE"), ("Ａnna", "anna"), ("Zoë", "Zoe\u0308")]
)
def test_names_that_look_alike_have_one_key(one, other):
    assert name_key(one) == name_key(other)
