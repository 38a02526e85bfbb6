from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.errors import InvalidRequest
from rhapsode.voices.target import MAX_URL_CHARS, Target


def refusal(url: str) -> str:
    with pytest.raises(InvalidRequest) as caught:
        Target.parse(url)
    assert caught.value.param == "ref_audio"
    return caught.value.message


def test_a_url_is_taken_apart():
    assert Target.parse("HTTPS://Example.COM:8443/a/b.wav?x=1&y=%20#part") == Target(
        "https", "example.com", 8443, "/a/b.wav?x=1&y=%20"
    )


@pytest.mark.parametrize(("url", "port"), [("http://a.com", 80), ("https://a.com", 443), ("https://a.com:/", 443)])
def test_a_scheme_has_its_port(url, port):
    assert Target.parse(url).port == port


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://a.com:80/", "a.com"),
        ("http://a.com:443/", "a.com:443"),
        ("https://[2606:4700::1]/", "[2606:4700::1]"),
        ("https://[2606:4700:0::1]:99/", "[2606:4700::1]:99"),
    ],
)
def test_the_host_header_names_host_and_unusual_port(url, authority):
    assert Target.parse(url).authority == authority


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://１２７.０.０.１/", "127.0.0.1"),
        ("http://127。0。0。1/", "127.0.0.1"),
        ("http://example.com./", "example.com"),
        ("http://[::FFFF:127.0.0.1]/", "::ffff:7f00:1"),
    ],
)
def test_a_host_has_one_spelling(url, host):
    assert Target.parse(url).host == host


def test_letters_beyond_ascii_in_a_path_are_percent_encoded():
    assert Target.parse("http://a.com/grüße.wav?q=ü").path == "/gr%C3%BC%C3%9Fe.wav?q=%C3%BC"


@pytest.mark.parametrize("url", ["ftp://a.com/", "file:///etc/passwd", "gopher://a.com/", "/etc/passwd", "a.wav", ""])
def test_only_http_and_https_are_fetched(url):
    assert "must start with https:// or http://" in refusal(url)


@pytest.mark.parametrize(
    "url", ["http://good.com@127.0.0.1/", "http://user:secret@good.com/", "http://@good.com/", "https://a@b@c.com/"]
)
def test_a_user_name_in_a_url_is_refused_and_not_repeated(url):
    message = refusal(url)
    assert "user name" in message
    assert "secret" not in message


@pytest.mark.parametrize(
    "url",
    [
        "http://good.com\\@127.0.0.1/",
        "http://good.com/\r\nHost: evil.com",
        "http://good.com/a b",
        " http://good.com/",
        "http://good.com/\x00",
        "ht\ttp://good.com/",
        "http://good.com/\x85",
    ],
)
def test_characters_that_parsers_disagree_about_are_refused(url):
    assert "spaces, backslashes or control characters" in refusal(url)


def test_a_fragment_is_not_mistaken_for_a_host():
    assert Target.parse("http://127.0.0.1#@good.com").host == "127.0.0.1"
    assert Target.parse("http://127.0.0.1?@good.com").host == "127.0.0.1"


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0177.0.0.1", "0x7f.1", "0x7f000001", "127.1", "0x", "1.2.3.4.5", "256.1.1.1", "017700000001"],
)
def test_an_address_in_an_unusual_spelling_is_refused(host):
    assert "not a valid name or address" in refusal(f"http://{host}/")


@pytest.mark.parametrize(
    "host",
    [
        "a..b",
        "-a.com",
        "a%2eb",
        "a_b*c.com",
        "x" * 64 + ".com",
        ".".join(["abcdefgh"] * 40),
        "[fe80::1%25eth0]",
        "[::1",
        "[::1]evil.com",
        "[1.2.3.4]",
        "[v1.fe:80]",
        "[:::]",
        "a.com:0",
        "a.com:65536",
        "a.com:99999999",
        "a.com:8o",
        "a.com:80:80",
        "",
        "℀.com",
        "\ud800.com",
    ],
)
def test_a_malformed_host_or_port_is_refused(host):
    assert "not a valid" in refusal(f"http://{host}/")


def test_a_path_that_is_not_unicode_is_refused():
    assert "not a valid URL" in refusal("http://a.com/\ud800")


def test_an_endless_url_is_refused():
    assert "too long" in refusal("http://a.com/" + "a" * MAX_URL_CHARS)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/b.wav", "https://a.com:8443/b.wav"),
        ("c.wav", "https://a.com:8443/x/c.wav"),
        ("//b.com/d.wav", "https://b.com/d.wav"),
        ("https://b.com", "https://b.com/"),
    ],
)
def test_a_redirect_may_be_relative(location, url):
    assert Target.parse("https://a.com:8443/x/y.wav").redirected(location).url == url


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://b.com/", "//x@b.com/", "http://[", "data:,a"])
def test_a_redirect_is_checked_like_any_url(location):
    with pytest.raises(InvalidRequest):
        Target.parse("https://a.com/").redirected(location)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("a.com", True),
        ("A.COM.", True),
        ("b.org", False),
        ("x.b.org", True),
        ("x.y.b.org", True),
        ("xb.org", False),
        ("a.com.evil.org", False),
        ("sub.a.com", False),
    ],
)
def test_hosts_match_exactly_or_below_a_suffix(host, allowed):
    assert Target.parse(f"http://{host}/").is_among(["a.com", "*.B.org"]) is allowed


@given(st.text(st.characters()) | st.from_regex(r"https?://[^/]*(/.*)?", fullmatch=True))
def test_any_text_is_a_sound_target_or_a_refusal(url):
    try:
        target = Target.parse(url)
    except InvalidRequest:
        return
    assert (target.host + target.path).isascii()
    assert not set(target.host + target.path) & set(" \r\n\t\\#")
    assert Target.parse(target.url) == target
