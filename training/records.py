"""Records of an evaluation: one line of JSON for each clip and measure, appended, so that any step can be stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from rhapsode.bench.quality.generated import generate
from rhapsode.bench.quality.prompts import SpokenPrompt, read_prompts

Record = dict[str, Any]


class Task(NamedTuple):
    """One prompt to speak in one voice. The seed is that of `rhapsode bench quality`."""

    voice: str
    set: str
    prompt: SpokenPrompt
    seed: int

    @property
    def key(self) -> str:
        return f"{self.voice}/{self.set}/{self.prompt.id}"


def tasks(voices: list[str], most: int | None, generated: int) -> list[Task]:
    """Returns all tasks, prompt by prompt: what is done at any time is done for all voices."""
    sets = {"prompts": read_prompts(), "generated": generate(generated, 0) if generated else ()}
    numbered = [
        (name, i, prompt)
        for name, prompts in sets.items()
        for i, prompt in enumerate(prompts)
        if most is None or i < most
    ]
    numbered.sort(key=lambda one: one[1])
    return [Task(voice, name, prompt, seed) for name, seed, prompt in numbered for voice in voices]


class Records:
    """A file of records by key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.found: dict[str, Record] = {}
        lines = path.read_text("utf-8").splitlines(keepends=True) if path.is_file() else []
        whole = [line for line in lines if line.endswith("\n")]
        if len(whole) < len(lines):  # it was stopped while it wrote
            path.write_text("".join(whole), "utf-8")
        for line in whole:
            record = json.loads(line)
            self.found[record["key"]] = record

    def __contains__(self, key: str) -> bool:
        return key in self.found

    def add(self, key: str, **values: Any) -> None:
        self.found[key] = {"key": key, **values}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.found[key], ensure_ascii=False) + "\n")
