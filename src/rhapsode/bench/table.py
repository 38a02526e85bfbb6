"""Prints a table."""

from __future__ import annotations

from collections.abc import Sequence

Cell = str | float | int | None
WIDTH = 240
"""Wide enough that no number is cut off: a narrow terminal wraps lines instead."""


def number(value: Cell) -> str:
    """Returns a number with three significant digits, without an exponent."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str = "") -> None:
    """Prints to standard output. The first column holds words, the others numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(number(cell) for cell in row))
    Console(width=WIDTH).print(table)
