"""`rhapsode voices`: lists the voices that a checkpoint speaks with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rhapsode.cli.completion import complete_model
from rhapsode.cli.wrapped import print_wrapped
from rhapsode.config import DEFAULT_MODEL
from rhapsode.config.server import ServerConfig
from rhapsode.types import ModelInfo

Checkpoint = Annotated[
    str,
    typer.Argument(help="A checkpoint's folder or Hugging Face id, or a family's name.", autocompletion=complete_model),
]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="Of uploaded voices, as `server.voices` says.", show_default="the server's"),
]


def voices(
    model: Checkpoint = DEFAULT_MODEL,
    folder: Folder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the voices that a checkpoint speaks with: presets and uploaded ones."""
    from rhapsode.models.registry import described

    info = described(model)[1]
    rows = [*presets(info), *uploaded(info, folder or ServerConfig().voices)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    margin = max((len(row["name"]) for row in rows), default=0) + 2
    for row in rows:
        print_wrapped("; ".join(_about(row)), margin, row["name"])
    if not rows:
        print_wrapped(_none(model, info))


def presets(info: ModelInfo) -> list[dict[str, Any]]:
    """Returns the presets with what is declared of them."""
    common = {"kind": "preset", "languages": list(info.languages)}
    return [
        {"name": name, **common, **info.voice_facts.get(name, {}), "to_download": name in info.to_download}
        for name in info.presets
    ]


def uploaded(info: ModelInfo, folder: Path) -> list[dict[str, Any]]:
    """Returns the voices in a server's folder that the checkpoint can speak with."""
    from rhapsode.voices.store import VoiceStore

    stored = [voice for voice in VoiceStore(folder.expanduser()).list() if voice.suits(info)]
    return [
        {
            "name": voice.name,
            "kind": "uploaded",
            "languages": list(info.languages),
            "id": voice.id,
            "duration_s": voice.duration_s,
            "description": voice.speaker_description,
        }
        for voice in stored
    ]


def _about(row: dict[str, Any]) -> list[str]:
    facts = ", ".join(row[fact] for fact in ("gender", "accent") if row.get(fact))
    length = f"{row['duration_s']:.1f} s" if row.get("duration_s") else ""
    told = [row["kind"], facts, row.get("description") or "", length, ", ".join(row["languages"]) or "any language"]
    return [part for part in [*told, "downloads first" if row.get("to_download") else ""] if part]


def _none(model: str, info: ModelInfo) -> str:
    if info.can.presets:
        return f"{model} has presets; which, only a checkpoint says: `rhapsode voices CHECKPOINT`."
    return f"{model} has no presets, and no voice was uploaded that it speaks with."
