"""A lexicon respells whole words, the longest first, however the text arrives."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.errors import ConfigError, InvalidRequest
from rhapsode.text.lexicon import Lexicon, LexiconStream
from rhapsode.text.spoken import SpokenRun, SpokenText

ENTRIES = {
    "nginx": "engine x",
    "SQL": "sequel",
    "New York": "Noo York",
    "New York City": "the big apple",
    "C++": "see plus plus",
    ".NET": "dot net",
    "naïve": "nigh eve",
    "東京": "とうきょう",
    "10x": "ten times",
}
EXAMPLE = Path(__file__).parents[3] / "examples" / "lexicon.yaml"


def respelt(text: str, cuts: list[int] | None = None, entries: dict[str, str] = ENTRIES) -> SpokenText:
    stream = LexiconStream(Lexicon(entries))
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts or ()), len(text)]
    runs = [run for a, b in pairwise(edges) for run in stream.push(SpokenRun(text[a:b], a, b, copied=True))]
    return SpokenText((*runs, *stream.close()))


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("I use nginx.", "I use engine x."),
        ("NGINX and Nginx", "engine x and engine x"),
        ("SQL, not sql or SQLite", "sequel, not sql or SQLite"),
        ("(SQL)-based", "(sequel)-based"),
        ("SQL's", "sequel's"),
        ("New York", "Noo York"),
        ("New  York City!", "the big apple!"),
        ("New Yorker", "New Yorker"),
        ("in C++, .NET and C", "in see plus plus, dot net and C"),
        ("naïve NAÏVE", "nigh eve nigh eve"),
        ("私は東京に", "私はとうきょうに"),
        ("a 10x engineer", "a ten times engineer"),
        ("nothing", "nothing"),
    ],
)
def test_whole_words_are_respelt(text: str, spoken: str) -> None:
    assert respelt(text).text == spoken


def test_a_respelling_stands_for_the_word_and_is_final() -> None:
    text = "Ask New York City now"
    run = next(run for run in respelt(text).runs if not run.copied)
    assert text[run.start : run.stop] == "New York City"
    assert run.fixed


PIECES = st.sampled_from([*ENTRIES, "New", "York", "City", "C", "+", " ", "  ", ".", "x", "\n", "京", "nginx" * 30])


@given(st.lists(PIECES, max_size=12).map("".join), st.lists(st.integers(0, 10_000), max_size=10))
def test_text_in_pieces_is_respelt_as_the_whole(text: str, cuts: list[int]) -> None:
    def characters(spoken: SpokenText) -> list[SpokenRun]:
        return [run.part(i, i + 1) for run in spoken.runs for i in range(len(run.text))]

    assert characters(respelt(text, cuts)) == characters(respelt(text))


def test_entries_of_a_request_come_first() -> None:
    lexicon = Lexicon({"GIF": "jif"}).with_more({"GIF": "gif", "SQL": "sequel"})
    assert lexicon.entries == {"GIF": "gif", "SQL": "sequel"}


def test_the_example_file_is_a_lexicon() -> None:
    assert len(Lexicon.read(EXAMPLE).entries) >= 5


@pytest.mark.parametrize("entries", [{"": "x"}, {"x": " "}, {"x" * 101: "y"}, {"x": "y" * 301}, {"a " * 20: "b"}])
def test_entries_without_words_or_too_long_are_refused(entries: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        Lexicon(entries)


@pytest.mark.parametrize("content", ["- a\n- b", "a: [1]", "a: {b: c}", ": :", "yes"])
def test_a_file_that_is_no_lexicon_is_an_error_of_the_configuration(content: str, tmp_path: Path) -> None:
    file = tmp_path / "lexicon.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError):
        Lexicon.read(file)
    with pytest.raises(ConfigError, match="cannot read"):
        Lexicon.read(tmp_path / "missing.yaml")
