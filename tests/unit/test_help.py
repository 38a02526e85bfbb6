"""What `--help` prints is what was written: brackets in it are no markup."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text

from rhapsode.cli.main import app


def helps(command: Any, path: str = "rhapsode") -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from helps(inner, f"{path} {name}")


HELPS = dict(helps(typer.main.get_command(app)))


@pytest.mark.parametrize("where", [where for where, text in HELPS.items() if "[" in text])
def test_brackets_are_shown(where: str) -> None:
    written = HELPS[where]
    assert Text.from_markup(written).plain == written.replace("\\[", "[")


def test_defaults_are_told() -> None:
    assert "[default: 8000]" in Text.from_markup(HELPS["rhapsode serve port"]).plain
