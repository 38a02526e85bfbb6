"""`rhapsode detect`: whether files have a watermark, whose it is, and from when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rhapsode.marking.detect import Detection

Files = Annotated[list[Path], typer.Argument(help="Audio files, in any usual format.", show_default=False)]
Config = Annotated[
    Path | None, typer.Option("-c", "--config", help="A deployment file: says whether the audio is from there.")
]
AsJson = Annotated[bool, typer.Option("--json", help="A line of JSON for every file.")]


def detect(files: Files, config: Config = None, as_json: AsJson = False) -> None:
    """Tell whether audio has a watermark of Rhapsode. Exits with 1 if any of the files has none."""
    from rhapsode.audio.clip import Audio
    from rhapsode.config import resolve
    from rhapsode.marking.detect import detect as run

    own = resolve(config).marking.deployment
    clean = False
    for file in files:
        found = run(Audio.open(file))
        clean |= not found.found
        typer.echo(json.dumps({"file": str(file), **_fields(found, own)}) if as_json else _sentence(file, found, own))
    if clean:
        raise typer.Exit(1)


def _fields(found: Detection, own: str) -> dict[str, Any]:
    payload = found.payload
    return {
        "found": found.found,
        "confidence": round(found.confidence, 6),
        "score": found.score,
        "speed": found.speed if found.found else None,
        "deployment": f"{payload.deployment:04x}" if payload else None,
        "deployment_name": own if payload and payload.is_from(own) else None,
        "time": payload.time.isoformat() if payload else None,
    }


def _sentence(file: Path, found: Detection, own: str) -> str:
    if not found.found:
        return f"{file}: no watermark found (score {found.score:.1f})."
    sure = f"confidence {found.confidence:.6f}, score {found.score:.1f}"
    if (payload := found.payload) is None:
        return f"{file}: watermark found, but its content cannot be read ({sure})."
    name = f" ('{own}')" if payload.is_from(own) else ""
    hour = payload.time.strftime("%Y-%m-%d %H:00 UTC")
    speed = f", played at {found.speed:g} times its speed" if found.speed != 1.0 else ""
    return f"{file}: watermark found: deployment {payload.deployment:04x}{name}, hour {hour}{speed} ({sure})."
