"""A lexicon respells whole words, the longest first, however the text arrives."""

import re
import time
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
    lexicon = Lexicon({"GIF": "jif", "Go": "goh"}).with_more({"GIF": "gif", "SQL": "sequel"})
    assert lexicon.entries == {"GIF": "gif", "Go": "goh", "SQL": "sequel"}
    stream = LexiconStream(lexicon)
    runs = [*stream.push(SpokenRun("GIF, SQL, Go", 0, 12, copied=True)), *stream.close()]
    assert "".join(run.text for run in runs) == "gif, sequel, goh"


def slowly_respelt(text: str, entries: dict[str, str]) -> str:
    """The rule, entry by entry: the longest that is here; of equally long ones one with a capital, then the first."""
    atom = re.compile(r"\s+|[\u3005-\u30ff\u3400-\u9fff]|[^\W_\u3005-\u30ff\u3400-\u9fff]+|.")
    split = [(atom.findall(word.strip()), spoken) for word, spoken in entries.items()]
    ranked = sorted(split, key=lambda entry: (-len(entry[0]), "".join(entry[0]).islower()))

    def is_same(given: str, wanted: str) -> bool:
        if wanted.isspace():
            return given.isspace() and given.count("\n") < 2
        return (given.lower() if wanted.islower() else given) == wanted

    atoms, found, at = atom.findall(text), "", 0
    while at < len(atoms):
        for wanted, spoken in ranked:
            here = atoms[at : at + len(wanted)]
            if len(here) == len(wanted) and all(map(is_same, here, wanted)):
                found, at = found + spoken, at + len(wanted)
                break
        else:
            found, at = found + atoms[at], at + 1
    return found


WORDS = st.sampled_from(
    ["a", "A", "ab", "Ab", "AB", "b", "İ", "ς", "Σ", "ß", "京", "東", "+", ".", "1", "²", "_", "\u0301"]
)
GAPS = st.sampled_from([" ", "", " ", "  ", "\n", "\t\n", "\n\n"])
TEXTS = st.lists(st.tuples(WORDS, GAPS).map("".join), min_size=1, max_size=12).map("".join)
PHRASES = st.lists(st.tuples(WORDS, GAPS).map("".join), min_size=1, max_size=4).map("".join)
LEXICONS = st.lists(PHRASES, max_size=8, unique=True).map(lambda words: {w: f"<{i}>" for i, w in enumerate(words)})


@given(TEXTS, LEXICONS, st.lists(st.integers(0, 100), max_size=6))
def test_a_lexicon_respells_by_the_rule_for_each_entry(text: str, entries: dict[str, str], cuts: list[int]) -> None:
    assert respelt(text, cuts, entries).text == slowly_respelt(text, entries)


SPELLINGS = ["".join(c.upper() if n >> i & 1 else c for i, c in enumerate("abcdefgh")) for n in range(255)]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a " * 11 + f"b{number}" for number in range(256)], "a " * 10_000),
        (["a " * count + "b" for count in range(1, 12)], "a " * 10_000),
        (["a " * 11 + spelling for spelling in SPELLINGS], "A " * 10_000),
        (["ABCDEFGH " * 9 + spelling for spelling in SPELLINGS], "ABCDEFGH " * 2_222),
        (["." * 23 + str(number) for number in range(256)], "." * 20_000),
        (["京" * 23 + chr(0x4E00 + number) for number in range(256)], "京" * 20_000),
    ],
    ids=["one beginning", "many lengths", "spellings", "long spellings", "signs", "characters"],
)
def test_entries_that_nearly_match_everywhere_cost_little(words: list[str], text: str) -> None:
    lexicon, started_s = Lexicon(dict.fromkeys(words, "x")), time.process_time()
    stream = LexiconStream(lexicon)
    said = [*stream.push(SpokenRun(text, 0, len(text), copied=True)), *stream.close()]
    assert "".join(run.text for run in said)
    assert time.process_time() - started_s < 2.0  # entry by entry these take up to 20 s


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
