"""Reads the files that deploy Rhapsode: what they set, what they run, what they ask for."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
KUBERNETES = ROOT / "deploy/kubernetes"
UNIT = ROOT / "deploy/systemd/rhapsode.service"
PAGE = ROOT / "docs/deploy.md"


@dataclass(frozen=True)
class Instruction:
    """One instruction of the Dockerfile, and the stage it belongs to."""

    stage: str
    name: str
    value: str


def dockerfile() -> list[Instruction]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    found: list[Instruction] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, value = line.split(maxsplit=1)
            stage = value.split(" AS ")[1] if name == "FROM" else found[-1].stage
            found.append(Instruction(stage, name, " ".join(value.split())))
    return found


def image_environment() -> dict[str, str]:
    pairs = [shlex.split(one.value) for one in dockerfile() if one.name == "ENV"]
    return dict(pair.split("=", 1) for part in pairs for pair in part)


def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(next((ROOT / "deploy").rglob(name)).read_text()))


def manifest(name: str, kind: str) -> dict[str, Any]:
    return next(one for one in manifests(name) if one["kind"] == kind)


def pod() -> dict[str, Any]:
    return manifest("rhapsode.yaml", "Deployment")["spec"]["template"]["spec"]


def container() -> dict[str, Any]:
    return pod()["containers"][0]


def config_map() -> str:
    return manifest("rhapsode.yaml", "ConfigMap")["data"]["deployment.yaml"]


def unit(section: str, key: str) -> list[str]:
    """The values of a key of the systemd unit, which may be given several times."""
    current, values = "", []
    for line in UNIT.read_text().splitlines():
        if found := re.fullmatch(r"\[(\w+)\]", line):
            current = found[1]
        elif current == section and line.startswith(f"{key}="):
            values.append(line.split("=", 1)[1])
    if not values:
        raise configparser.NoOptionError(key, section)
    return values


def page_commands() -> Iterator[list[str]]:
    """The commands in the page's code blocks, in words; comments and continued lines are resolved."""
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r" && | \| ", line):
                if words := shlex.split(part, comments=True):
                    yield words
