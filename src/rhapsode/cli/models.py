"""`rhapsode models`: lists the model families, or says what one checkpoint can do."""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rhapsode.cli.completion import complete_model
from rhapsode.cli.wrapped import print_wrapped

if TYPE_CHECKING:
    from rhapsode.models.spec import ModelSpec
    from rhapsode.types import ModelInfo

Model = Annotated[
    str | None,
    typer.Argument(
        help="A family, or a checkpoint: its folder or Hugging Face id.",
        show_default=False,
        autocompletion=complete_model,
    ),
]


def models(
    model: Model = None,
    everything: Annotated[bool, typer.Option("--all", help="Include families for tests.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the model families, or say what one checkpoint can do."""
    from rhapsode.models.packaged import PACKAGED
    from rhapsode.models.registry import described, families

    specs = [spec for spec in families()[0].values() if everything or not spec.hidden]
    if model is None:
        rows = [_row(spec.name, spec, spec.info()) for spec in specs]
    else:
        spec, info = described(model)
        specs, rows = [spec], [_row(model, spec, info)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, default=str))
        return
    if model is not None:
        _print_checkpoint(rows[0], specs[0])
    else:
        _print_families(rows)
        print_wrapped("A family's abilities are those of all its checkpoints together: `rhapsode models CHECKPOINT`.")
        for name in PACKAGED:
            print_wrapped(f"{name} is a checkpoint that comes with this package{_abilities(name)}.")
    for row in rows:
        if row["install"]:
            typer.echo(f"{row['name']} is not installed: {row['install']}")


def _row(name: str, spec: ModelSpec, info: ModelInfo) -> dict[str, Any]:
    from rhapsode.models.registry import how_to_get, missing

    return {
        "name": name,
        "family": info.family,
        "variant": info.variant or None,
        "summary": info.summary,
        "sample_rate": info.sample_rate,
        "channels": info.channels,
        "can": list(info.can.names()),
        "voices": list(info.voices),
        "voices_to_download": list(info.to_download),
        "languages": list(info.languages),
        "sampling": list(info.sampling),
        "options": {f.name: _default(f) for f in fields(spec.options) if f.name in info.options},
        "stages": [stage.name for stage in spec.pipeline],
        "install": how_to_get(spec) if missing(spec) else None,
    }


def _print_checkpoint(row: dict[str, Any], spec: ModelSpec) -> None:
    """Prints everything about one checkpoint, each value on its own line: nothing is cut to the terminal's width."""
    from rhapsode.models.option_schema import options_schema

    about = options_schema(spec)["properties"]
    lines = {
        "model": row["name"],
        "family": f"{row['family']} {row['variant'] or ''}".rstrip(),
        "what it is": row["summary"],
        "rate": f"{row['sample_rate']} Hz, {'mono' if row['channels'] == 1 else 'stereo'}",
        "can": ", ".join(row["can"]) or "-",
        "voices": _voices(row),
        "languages": ", ".join(row["languages"]) or "any",
        "sampling": ", ".join(row["sampling"]) or "-",
        "options": "" if row["options"] else "-",
    }
    for name, value in lines.items():
        typer.echo(f"{name:>10}  {value}".rstrip())
    for name, default in row["options"].items():
        typer.echo(f"{'':>12}{name} = {_written(default)}  ({_values(about[name])})")
        if words := about[name].get("description"):
            typer.echo(f"{'':>16}{' '.join(words.split())}")


def _values(about: dict[str, Any]) -> str:
    """Returns which values an option may have, from its JSON schema."""
    kind = next(one for one in about.get("anyOf", [about]) if one.get("type") != "null")
    if choices := kind.get("enum") or ([kind["const"]] if "const" in kind else None):
        return " or ".join(map(str, choices))
    least, above, most = (about.get(name) for name in ("minimum", "exclusiveMinimum", "maximum"))
    bounds = [f"above {above:g}"] if above is not None else [f"{least:g} or more"] if least is not None else []
    bounds += [f"at most {most:g}"] if most is not None else []
    if least is not None and most is not None:
        bounds = [f"{least:g} to {most:g}"]
    names = {"integer": "whole number", "boolean": "true or false", "string": "text", "array": "list"}
    return ", ".join([names.get(kind["type"], kind["type"]), *bounds])


def _written(default: Any) -> str:
    """Returns a default as a user would write it."""
    return "none" if default is None else json.dumps(default, ensure_ascii=False)


def _print_families(rows: list[dict[str, Any]]) -> None:
    """Prints each family's name, rate and abilities, and below them what it is, as wide as the terminal."""
    margin = max(len(row["name"]) for row in rows) + 2
    for row in rows:
        print_wrapped(f"{row['sample_rate'] / 1000:g} kHz: {', '.join(row['can']) or '-'}", margin, row["name"])
        print_wrapped(row["summary"], margin)
        if row["voices"] or row["voices_to_download"]:
            print_wrapped(f"voices: {_voices(row)}", margin)


def _voices(row: dict[str, Any]) -> str:
    here, others = ", ".join(row["voices"]) or "-", ", ".join(row["voices_to_download"])
    return f"{here}; to download: {others}" if others else here


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
