"""Nothing that reads a user's text takes more than linear time: twice the text, about twice the work."""

import ast
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rhapsode
from rhapsode.text.clean import clean
from rhapsode.text.normalise.language import language_of
from rhapsode.text.normalise.stream import Normaliser
from rhapsode.text.phonemes.stream import PhonemeStream
from rhapsode.text.split import split
from rhapsode.text.spoken import SpokenRun
from rhapsode.text.stream import SentenceStream
from rhapsode.voices.name import name_key

SIZE = 8_000
RATIO = 2.5
ENOUGH_S = 0.01  # quadratic work on twice SIZE takes ten times as long
SEEDS = ("a", " ", "\n", "0", ".", ",", ":", "x.", "a ", " \n", '."', "[", "0x", "é", "\u3000")
TAILS = ("", "!", "\n", "a")


def cpu_s(work: Callable[[], object]) -> float:
    """The CPU time of one call."""
    started_s = time.thread_time()
    work()
    return time.thread_time() - started_s


def assert_linear(work: Callable[[int], object]) -> None:
    """Fast enough for any growth, or no more than twice the time for twice the input, give or take."""
    for _ in range(4):  # a neighbour on the same core may spoil a measurement
        large_s = cpu_s(lambda: work(2 * SIZE))
        if large_s < ENOUGH_S or large_s <= RATIO * cpu_s(lambda: work(SIZE)):
            return
    raise AssertionError(f"{2 * SIZE} characters took {large_s:.3f} s of CPU")


CALL = re.compile(r"\b(\w+)\.(\w+)\(")


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Calls of the form `re.method(...)`, and which method it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "re":
                yield node.func.attr, node


def patterns() -> Iterator[tuple[str, str, set[str]]]:
    """Every regular expression of the package: where it is, what it says, and the methods it is used by."""
    root = Path(rhapsode.__file__).parent
    texts = {str(file.relative_to(root)): file.read_text("utf-8") for file in sorted(root.rglob("*.py"))}
    used: dict[str, set[str]] = {}
    for text in texts.values():
        for name, method in CALL.findall(text):
            used.setdefault(name, set()).add(method)
    for file, text in texts.items():
        if not re.search(r"\bre\.", text):
            continue  # to parse every file takes seconds
        tree = ast.parse(text)
        names = {
            id(node.value): node.targets[0].id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for method, call in calls(tree):
            if call.args and isinstance(call.args[0], ast.Constant):
                methods = {method} if method != "compile" else used.get(names.get(id(call), ""), {"search"})
                yield f"{file}:{call.lineno}", call.args[0].value, methods  # by default as others may use it


FOUND = list(patterns())


def test_the_patterns_of_the_package_are_found() -> None:
    found = {where.partition(":")[0]: methods for where, _, methods in FOUND}
    assert found["text/clean.py"] == {"sub"}
    assert found["voices/name.py"] == {"fullmatch"}


@pytest.mark.parametrize(("pattern", "methods"), [found[1:] for found in FOUND], ids=[found[0] for found in FOUND])
def test_every_pattern_is_linear_in_its_worst_case(pattern: str | bytes, methods: set[str]) -> None:
    compiled = re.compile(pattern)
    for seed in SEEDS:
        for tail in TAILS:

            def work(size: int, seed: str = seed, tail: str = tail) -> None:
                text: Any = seed * (size // len(seed)) + tail
                if isinstance(pattern, bytes):
                    text = text.encode()
                if "fullmatch" in methods:
                    compiled.fullmatch(text)
                if "match" in methods:
                    compiled.match(text)
                if methods - {"fullmatch", "match"}:
                    compiled.findall(text)

            assert_linear(work)


WORST_TEXTS = {
    "marks": "a" + "\u0315\u0300" * 5,
    "alternating marks": "\u0315\u0300",
    "marks that are no marks": "\u0f73",
    "marks that are two": "\u0344",
    "letters": "x",
    "words": "word ",
    "blanks": " ",
    "line ends": " \n ",
    "hangul": "\u1100\u1161\u11a8",
    "joiners": "\u200d",
    "sentences": "A. ",
    "abbreviations": "Dr. ",
    "quotes": '"',
    "brackets": "(",
}


@pytest.mark.parametrize("piece", WORST_TEXTS.values(), ids=WORST_TEXTS)
def test_cleaning_is_linear(piece: str) -> None:
    assert_linear(lambda size: clean("a" + piece * (size // len(piece))))


@pytest.mark.parametrize("piece", WORST_TEXTS.values(), ids=WORST_TEXTS)
def test_splitting_is_linear(piece: str) -> None:
    assert_linear(lambda size: split("a" + piece * (size // len(piece))))


NUMBERS = ("1", "1,", "1,234", "12:", "$1.", "a@a.", "1-", "1/", "Jan. ", "No. 1 ", "+1 ", "(1) ", "5 ", "v1.", "年1")


@pytest.mark.parametrize("language", ["en", "fr", "zh", "ko"])
@pytest.mark.parametrize("piece", [*WORST_TEXTS.values(), *NUMBERS])
def test_normalising_is_linear(piece: str, language: str) -> None:
    def work(size: int) -> None:
        rules = language_of(language)
        assert rules is not None
        normaliser = Normaliser(rules)
        text = piece * (size // 4 // len(piece))
        normaliser.push(SpokenRun(text, 0, len(text), copied=True))
        normaliser.close()

    assert_linear(work)


@pytest.mark.parametrize("piece", [*WORST_TEXTS.values(), "!", "..", "'d", "i'd ", "read to ", "-a"])
def test_finding_phonemes_is_linear(piece: str) -> None:
    def work(size: int) -> None:
        stream = PhonemeStream()
        text = "i" + piece * (size // 4 // len(piece))
        stream.push(SpokenRun(text, 0, len(text), copied=True))
        stream.close()

    work(SIZE // 10)  # reads the lexicon
    assert_linear(work)


@pytest.mark.parametrize("piece", WORST_TEXTS.values(), ids=WORST_TEXTS)
def test_looking_a_voice_up_by_a_long_name_is_cheap(piece: str) -> None:
    name = piece * (1_000_000 // len(piece))
    assert cpu_s(lambda: name_key(name)) < 0.05


@pytest.mark.parametrize("start", ["x" * 19_500 + " ", "x" * 19_500, "word " * 3900])
def test_a_small_message_costs_little_after_a_long_text(start: str) -> None:
    sentences = SentenceStream()
    sentences.push(start)
    assert cpu_s(lambda: sentences.push("a")) < 0.05
