"""`rhapsode new-family`: writes a package with a model family that speaks at once and passes the contract suite."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

TEMPLATE = Path(__file__).with_name("family_template")
SUFFIX = ".txt"
"""Of the template's files, which are no part of this package's code."""
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
NEXT = """{folder} holds a family that speaks: noise, until it has weights. Next:
  pip install -e "{folder}[dev]"
  rhapsode say "Hello there." --model {name}
  pytest --pyargs rhapsode.testing --family {name}"""


def new_family(
    name: Annotated[str, typer.Argument(help="The family's name: lower-case words with hyphens, such as my-tts.")],
    folder: Annotated[Path | None, typer.Option(help="The folder to make. \\[default: the name]")] = None,
) -> None:
    """Write a package with a new model family, which passes the contract suite at once."""
    folder = folder or Path(name)
    _check(name, folder)
    words = {"my-tts": name, "my_tts": _module(name), "MyTts": "".join(word.capitalize() for word in name.split("-"))}
    for source in sorted(TEMPLATE.rglob(f"*{SUFFIX}")):
        place = folder / _renamed(str(source.relative_to(TEMPLATE)).removesuffix(SUFFIX), words)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_renamed(source.read_text("utf-8"), words), "utf-8")
    typer.echo(NEXT.format(folder=folder, name=name))


def _check(name: str, folder: Path) -> None:
    from rhapsode.errors import InvalidRequest
    from rhapsode.models.registry import families

    if not NAME.fullmatch(name):
        raise InvalidRequest(f"'{name}' is no name for a family: take lower-case words with hyphens, such as my-tts.")
    if name in families()[0] or find_spec(_module(name)) is not None:
        raise InvalidRequest(f"there is a family or a module called '{name}' already; take another name.")
    if folder.exists():
        raise InvalidRequest(f"{folder} exists already; --folder names another place.")


def _module(name: str) -> str:
    return name.replace("-", "_")


def _renamed(text: str, words: dict[str, str]) -> str:
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text
