"""`rhapsode models`: lists the model families and their capabilities."""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any

import typer


def models(
    everything: Annotated[bool, typer.Option("--all", help="Include families for tests.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the model families."""
    from rhapsode.models.registry import PACKAGED, families, how_to_get, missing

    found, _ = families()
    rows: list[dict[str, Any]] = [
        {
            "name": spec.name,
            "summary": spec.summary,
            "sample_rate": spec.sample_rate,
            "channels": spec.channels,
            "can": list(spec.can.names()),
            "voices": list(spec.voices),
            "languages": list(spec.languages),
            "options": {f.name: _default(f) for f in fields(spec.options)},
            "stages": [stage.name for stage in spec.pipeline],
            "install": how_to_get(spec) if missing(spec) else None,
        }
        for spec in found.values()
        if everything or not spec.hidden
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, default=str))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("family", "what it is", "rate", "can", "voices", box=None, header_style="bold")
    for row in rows:
        table.add_row(
            row["name"],
            escape(row["summary"]),
            f"{row['sample_rate'] / 1000:g} kHz",
            ", ".join(row["can"]) or "-",
            ", ".join(row["voices"]) or "-",
        )
    Console().print(table)
    for name in PACKAGED:
        typer.echo(f"{name} is a checkpoint that comes with this package{_abilities(name)}.")
    for row in rows:
        if row["install"]:
            typer.echo(f"{row['name']} is not installed: {row['install']}")


def _abilities(checkpoint: str) -> str:
    """Returns voices and languages of a checkpoint, as the end of a sentence; nothing if it cannot be read here."""
    from rhapsode.errors import RhapsodeError
    from rhapsode.models.registry import find

    try:
        info = find(checkpoint).info()
    except RhapsodeError:
        return ""
    return f" (voices: {', '.join(info.voices) or '-'}; languages: {', '.join(info.languages) or 'any'})"


def _default(option: Field[Any]) -> Any:
    if option.default_factory is not MISSING:
        return option.default_factory()
    if option.default is MISSING:
        return None
    return option.default if option.default not in (math.inf, -math.inf) else str(option.default)
