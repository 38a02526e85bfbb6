from __future__ import annotations

import base64
import contextlib
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.errors import BadAudio
from rhapsode.voices import data_url
from rhapsode.voices.data_url import is_data_url, parse_data_url
from rhapsode.voices.fetch import is_remote

BYTES = st.binary(min_size=1, max_size=200)


def refusal(url: str, max_bytes: int = 100) -> str:
    with pytest.raises(BadAudio) as caught:
        parse_data_url(url, max_bytes)
    assert caught.value.param == "ref_audio"
    return caught.value.message


@given(BYTES)
def test_base64_gives_its_bytes(data):
    assert parse_data_url("data:audio/wav;base64," + base64.b64encode(data).decode(), 200) == data


@given(BYTES)
def test_percent_encoding_gives_its_bytes(data):
    assert parse_data_url("data:audio/wav," + quote_from_bytes(data, safe=""), 200) == data


@given(BYTES)
def test_base64_may_be_url_safe_unpadded_broken_into_lines_and_percent_encoded(data):
    text = base64.urlsafe_b64encode(data).decode().rstrip("=")
    assert parse_data_url("DATA:;BASE64," + "%0A".join(text), 200) == data


@given(st.text())
def test_any_text_is_bytes_within_the_limit_or_a_refusal(text):
    for prefix in ("", "data:", "data:,", "data:;base64,"):
        with contextlib.suppress(BadAudio):
            assert 0 < len(parse_data_url(prefix + text, 10)) <= 10


@pytest.mark.parametrize("size", [99, 100])
def test_data_up_to_the_limit_is_taken(size):
    assert len(parse_data_url("data:;base64," + base64.b64encode(bytes(size)).decode(), 100)) == size


@pytest.mark.parametrize("size", [101, 102, 103, 10_000])
def test_data_beyond_the_limit_is_refused_before_it_is_decoded(size, monkeypatch):
    monkeypatch.setattr(data_url.base64, "b64decode", lambda *_, **__: pytest.fail("it was decoded"))
    assert "too large" in refusal("data:;base64," + base64.b64encode(bytes(size)).decode())
    assert "too large" in refusal("data:," + "%00" * size)


def test_data_far_beyond_the_limit_is_not_even_copied(monkeypatch):
    monkeypatch.setattr(data_url, "unquote_to_bytes", lambda *_: pytest.fail("it was copied"))
    assert "too large" in refusal("data:;base64," + "A" * 10_000)


@pytest.mark.parametrize("url", ["data:", "data:audio/wav;base64", "data;base64,AAAA", "http://a.com/,", ""])
def test_what_is_no_data_url_is_refused_with_an_example(url):
    assert "data:audio/wav;base64,..." in refusal(url)


@pytest.mark.parametrize("text", ["A", "AAAA=A", "A===", "!!!!", "AA=", "====", "AAAAA"])
def test_broken_base64_is_refused(text):
    assert "not valid base64" in refusal(f"data:;base64,{text}")


@pytest.mark.parametrize("url", ["data:,", "data:;base64,", "data:;base64,%20"])
def test_no_data_is_refused(url):
    assert "empty" in refusal(url)


@pytest.mark.parametrize("text", ["é", "\ud800"])
def test_data_beyond_ascii_is_refused(text):
    assert "percent-encoding" in refusal(f"data:,{text}")


def test_urls_are_told_apart():
    assert [is_remote(url) for url in ("http://a", "HTTPS://a", "data:,a", "file:///a", "a.wav", "")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert is_data_url("Data:,a")
    assert not is_data_url("https://a/data:")
