"""The control tokens of Higgs v3 are the published ones, in prompts and wherever a tag is recommended."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhapsode.models.higgs import sections
from rhapsode.models.higgs.sections import AUDIO, REFERENCE_AUDIO, REFERENCE_TEXT, TASK, TEXT
from rhapsode.models.higgs.spec import V3
from rhapsode.models.higgs.tokenizer import ControlTokens
from unit.real.published import facts

PUBLISHED: dict[str, int] = facts("higgs_v3/control_tokens.json")
VOCABULARY = 151_936
TAGS = {name: number for name, number in PUBLISHED.items() if ":" in name}
UNKNOWN = "<|emotion:unknown|>"
"""The tag that our tests take for one that does not exist."""
ROOT = Path(__file__).parents[3]
_WRITTEN = re.compile(r"<\\?\|(?:emotion|style|prosody|sfx|env):[^|<>\\]*\\?\|>")
"""A tag in a text, in code or in a cell of a table."""


@pytest.fixture
def tokens(tmp_path: Path) -> ControlTokens:
    listed = {str(number): {"content": name} for name, number in PUBLISHED.items()}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": listed}))
    return ControlTokens(tmp_path, VOCABULARY)


def test_the_tokens_of_prompts_are_published(tokens: ControlTokens) -> None:
    names = (TASK, TEXT, AUDIO, REFERENCE_AUDIO, REFERENCE_TEXT)
    assert [tokens[name] for name in names] == [151_667, 151_672, 151_670, 151_679, 151_680]


def test_a_text_may_hold_all_published_tags_and_no_other_control_token(tokens: ControlTokens) -> None:
    assert tokens.tags() == TAGS
    assert len(TAGS) == 45
    assert {name.split(":")[0] for name in TAGS} == {"<|emotion", "<|env", "<|style", "<|sfx", "<|prosody"}


def test_the_tag_that_errors_recommend_is_published() -> None:
    assert [name in TAGS for name in tags_in(V3.instead["instructions"])] == [True]


def test_the_readme_of_the_family_lists_all_tags() -> None:
    assert set(tags_in(Path(sections.__file__).with_name("README.md").read_text("utf-8"))) == set(TAGS)


def test_every_tag_that_is_written_anywhere_is_published() -> None:
    """In the code, the examples, the documentation and the tests."""
    named = {name: str(file.relative_to(ROOT)) for file in texts() for name in tags_in(file.read_text("utf-8"))}
    assert len(named) >= len(TAGS)
    assert {name: file for name, file in named.items() if name not in (*TAGS, UNKNOWN)} == {}


def tags_in(text: str) -> list[str]:
    return [found.replace("\\", "") for found in _WRITTEN.findall(text)]


def texts() -> Iterator[Path]:
    """Whatever is written for people or for Python."""
    yield from ROOT.glob("*.md")
    for folder in ("src", "docs", "examples", "tests", "tools", "benchmarks", "deploy"):
        for kind in ("py", "md", "js", "json", "yaml", "html"):
            yield from (ROOT / folder).rglob(f"*.{kind}")
