"""Subtitles: short lines, whole sentences, nothing of the text lost."""

import re
from itertools import pairwise

import pytest

from rhapsode.alignment.shown import shown_words
from rhapsode.alignment.subtitles import LINE_CHARS, LINES, cues, subtitle_kind, subtitles
from rhapsode.alignment.words import WordTime
from rhapsode.errors import OutputError

TEXT = (
    'It was the best of times, it was the worst of times. "Really?" he asked — twice (so they say). '
    "The period was so far like the present period, that some of its noisiest authorities insisted on its being "
    "received, for good or for evil, in the superlative degree of comparison only. Yes."
)


def words(text: str, each_s: float = 0.3) -> list[WordTime]:
    found = re.finditer(r"[A-Za-z]+", text)
    return [
        WordTime(match[0], index * each_s, (index + 0.9) * each_s, *match.span()) for index, match in enumerate(found)
    ]


def test_nothing_of_the_text_is_lost() -> None:
    shown = shown_words(TEXT, words(TEXT))
    assert " ".join(word.text for word in shown) == TEXT
    assert " ".join(line for cue in cues(shown) for line in cue.lines) == TEXT


def test_cues_are_short_and_in_order() -> None:
    made = cues(shown_words(TEXT, words(TEXT)))
    assert all(len(cue.lines) <= LINES and max(map(len, cue.lines)) <= LINE_CHARS for cue in made)
    assert all(before.end_s <= after.start_s for before, after in pairwise(made))
    assert all(cue.end_s > cue.start_s for cue in made)


def test_a_sentence_ends_a_cue() -> None:
    made = cues(shown_words(TEXT, words(TEXT)))
    ends = [" ".join(cue.lines) for cue in made]
    assert any(cue.endswith("worst of times.") for cue in ends)
    assert ends[-1] == "Yes."


def test_a_long_sentence_is_cut_after_a_clause() -> None:
    made = cues(shown_words(TEXT, words(TEXT, each_s=0.2)))
    within = [cue.lines[-1] for cue in made if not cue.lines[-1].endswith((".", ").", '?"'))]
    assert within
    assert all(line.endswith(",") for line in within)


def test_tags_of_a_document_are_left_out() -> None:
    text = "<speak>Hello<break time='1s'/> there, <sub alias='you all'>you</sub>.</speak>"
    spans = [(7, 12), (31, 36), (text.index("<sub"), text.index("</sub>") + 6)]
    found = [WordTime(text[a:b], index, index + 0.5, a, b) for index, (a, b) in enumerate(spans)]
    assert [word.text for word in shown_words(text, found, "ssml")] == ["Hello", "there,", "you."]


def test_files_are_as_players_read_them() -> None:
    shown = cues(shown_words("Hi & <you>.", words("Hi & <you>.", each_s=4000.0)))
    assert subtitles(shown[:1], "srt") == "1\n00:00:00,000 --> 01:00:00,000\nHi &\n"
    assert "01:06:40.000 --> " in subtitles(shown, "vtt")
    assert subtitles(shown, "vtt").startswith("WEBVTT\n\n1\n")
    assert "&lt;you>." in subtitles(shown, "vtt")


@pytest.mark.parametrize("name", ["talk.txt", "talk"])
def test_other_files_are_refused(name: str) -> None:
    with pytest.raises(OutputError, match=r"\.srt or \.vtt"):
        subtitle_kind(name)


def test_subtitles_of_a_document_have_its_words_and_no_markup() -> None:
    text = "# The *Light*house\n\n## Chapter 1\nSee [the docs](http://x.y/z), &amp; **go**!\n\n- Tea\n- Milk\n"
    spans = [text.index(word) for word in ("The", "Light", "Chapter", "1", "See", "the", "docs", "go", "Tea", "Milk")]
    stops = [text.index("\n", spans[1]) if at == spans[1] else re.compile(r"\w+").match(text, at).end() for at in spans]
    found = [WordTime("", n, n + 0.9, a, b) for n, (a, b) in enumerate(zip(spans, stops, strict=True))]
    shown = cues(shown_words(text, found, "markdown"))
    assert [" ".join(cue.lines) for cue in shown] == [
        "The Lighthouse", "Chapter 1", "See the docs, & go!", "Tea", "Milk",
    ]  # fmt: skip
    html = "<h1>The <b>Light</b>house</h1><p>Go on"
    spans = [(html.index(word), html.index(word) + len(word)) for word in ("The", "Light</b>house", "Go", "on")]
    found = [WordTime("", n, n + 0.9, a, b) for n, (a, b) in enumerate(spans)]
    assert [cue.lines for cue in cues(shown_words(html, found, "html"))] == [("The Lighthouse",), ("Go on",)]
