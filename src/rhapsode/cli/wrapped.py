"""Prints text as wide as the terminal."""

from __future__ import annotations

import shutil
import textwrap

import typer

WIDEST = 120


def print_wrapped(text: str, margin: int = 0, title: str = "") -> None:
    """Prints text in lines of whole words that begin at a margin, in which the title stands."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    lines = textwrap.wrap(text, max(20, width - margin), break_long_words=False, break_on_hyphens=False)
    for line in lines:
        typer.echo(f"{title:<{margin}}{line}".rstrip())
        title = ""
