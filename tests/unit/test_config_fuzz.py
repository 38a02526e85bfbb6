"""Damaged deployment files and variables become a deployment or one clear sentence, never a traceback."""

import time
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import damaged, damaged_bytes, fuzzed, values
from rhapsode.config import MOST_PROBLEMS, Deployment, resolve
from rhapsode.errors import ConfigError

VALID = Deployment(options={"lookahead": 1}, companions={"codec": "folder"}).model_dump(mode="json")
VALID["stages"] = {"vocode": {"device": "cpu", "workers": 1, "batch": 2}}
VALID["server"] |= {"api_keys": ["a-key"], "cors_origins": ["https://example.org"]}
TEXT = yaml.safe_dump(VALID).encode()
CPU_S = 3  # to read nested YAML until Python gives up takes a second
BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 8)}]\n" for before, name in pairwise("abcdefghi")
)
"""A few lines that stand for a hundred million values."""


def refusal(file: Path | None, env: dict[str, str] | None = None) -> str:
    """Returns why a deployment is refused; nothing if it is accepted. Any other error is the test's."""
    started_s = time.thread_time()
    message = ""
    try:
        resolve(file, env or {})
    except ConfigError as error:
        message = error.message
        assert message
    assert time.thread_time() - started_s < CPU_S
    return message


def are_sentences(message: str, file: Path | None) -> bool:
    """Tells whether it is one line, or a line for each of a few problems of the file."""
    lines = message.split("\n")
    begin_well = len(lines) == 1 or all(line.startswith(f"{file}:") for line in lines)
    return begin_well and len(lines) <= MOST_PROBLEMS and max(map(len, lines)) < 2000


def check(file: Path | None, env: dict[str, str] | None = None) -> bool:
    """Tells whether it was accepted."""
    message = refusal(file, env)
    assert are_sentences(message, file)
    return not message


@pytest.mark.parametrize("text", ['"a\\nb": 1', '{server: {"a\\nb": 1}}', '{stages: {"a\\n": {"\\nb": 1}}}'])
def test_a_key_of_several_lines_is_explained_in_one(tmp_path: Path, text: str) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(text, "utf-8")
    assert not check(file)


def test_a_damaged_deployment_is_resolved_or_explained(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_bytes(TEXT)
    assert check(file)

    @fuzzed(150)
    @given(tree=damaged(VALID) | values())
    def attempt(tree) -> None:
        try:
            file.write_text(yaml.safe_dump(tree, allow_unicode=False), "utf-8")
        except (yaml.YAMLError, ValueError):
            return
        check(file)

    attempt()


def test_damaged_bytes_of_a_deployment_are_resolved_or_explained(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"

    @fuzzed(150)
    @given(data=damaged_bytes(TEXT))
    def attempt(data: bytes) -> None:
        file.write_bytes(data)
        assert are_sentences(refusal(file), file)

    attempt()


@pytest.mark.parametrize(
    "text",
    [
        "&a [*a]",
        "options: &a {x: *a}",
        "server: &a {socket: *a}",
        "limits: &a\n  <<: *a\n",
        "stages: &a {vocode: *a}",
        BOMB,
        "server: {cors_origins: &a [x,x,x,x,x,x,x,x], allowed_hosts: &b [*a,*a,*a,*a,*a,*a,*a,*a]}",
        "[" * 5000,
        "{a: " * 2000,
        "model: !!python/object/apply:os.system [id]",
        "? {a: b}\n: c",
        "2026-99-99: x",
        "limits: {max_queue: " + "9" * 5000 + "}",
        "limits: {max_queue: 1e999}",
        "server: {port: .nan}",
        "\ufeffmodel: dummy",
        "model: \"\\0\"",
    ],
    ids=lambda text: text[:24],
)  # fmt: skip
def test_a_hostile_deployment_is_resolved_or_explained(tmp_path: Path, text: str) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(text, "utf-8")
    assert are_sentences(refusal(file), file)


@fuzzed(150)
@given(
    name=st.sampled_from(["MODEL", "LIMITS", "LIMITS__MAX_QUEUE", "SERVER__API_KEYS", "SERVER__SOCKET", "STAGES__A__B"])
    | st.text("ABC_", max_size=9),
    text=st.text(max_size=30) | st.sampled_from(["&a [*a]", "[", "{", "1e999", "a #b", "!!int x", "~", "0x", "1:2:3"]),
)
def test_any_variable_is_resolved_or_explained(name: str, text: str) -> None:
    assert are_sentences(refusal(None, {f"RHAPSODE_{name}": text, "RHAPSODE_DEVICE": "cpu"}), None)
