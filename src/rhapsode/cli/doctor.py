"""`rhapsode doctor`: what works here, what is missing, and how to get it."""

from __future__ import annotations

import importlib
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import typer


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `works` is None where it is merely absent."""

    subject: str
    works: bool | None
    detail: str


def doctor() -> None:
    """Look at this machine and say what works; exits with 1 if something is broken."""
    findings = [finding for examine in EXAMINATIONS for finding in examine()]
    marks = {True: ("ok", "green"), False: ("BROKEN", "red"), None: ("absent", "yellow")}
    for finding in findings:
        word, colour = marks[finding.works]
        typer.echo(f"{typer.style(f'{word:>7}', fg=colour)}  {finding.subject:<18} {finding.detail}")
    if any(finding.works is False for finding in findings):
        raise typer.Exit(1)


def examine_python() -> Iterator[Finding]:
    yield Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} on {platform.platform()}")


def examine_packages() -> Iterator[Finding]:
    needed = {"numpy": "numpy", "av": "av", "soxr": "soxr", "sentencex": "sentencex", "pydantic": "pydantic"}
    for module, package in needed.items():
        yield _examine_import(module, package)


def examine_torch() -> Iterator[Finding]:
    finding = _examine_import("torch", "torch")
    yield finding
    if finding.works:
        import torch

        count = torch.cuda.device_count()
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(count))
        yield Finding("gpu", True if count else None, names or f"none; {torch.get_num_threads()} CPU threads")


def examine_families() -> Iterator[Finding]:
    from rhapsode.errors import RhapsodeError
    from rhapsode.models.registry import PACKAGED, families, find, how_to_get, missing

    for name in PACKAGED:
        try:
            yield Finding(f"model {name}", True, f"in this package, a checkpoint of {find(name).spec.name}")
        except RhapsodeError as error:
            yield Finding(f"model {name}", False, error.message)
    found, broken = families()
    for spec in found.values():
        lacking = missing(spec)
        detail = f"needs {', '.join(lacking)}: {how_to_get(spec)}" if lacking else spec.summary
        yield Finding(f"model {spec.name}", None if lacking else True, detail)
    for one in broken:
        yield Finding(f"model {one.name}", False, one.error)


def examine_player() -> Iterator[Finding]:
    from rhapsode.cli.player import FILE_PLAYERS, find_player

    player = find_player()
    yield Finding("player", True if player else None, player or f"install one of: {', '.join(FILE_PLAYERS)}")


def _examine_import(module: str, package: str) -> Finding:
    try:
        importlib.import_module(module)
        return Finding(package, True, version(package))
    except (ImportError, PackageNotFoundError) as error:
        return Finding(package, False, f"{error}; pip install {package}")


EXAMINATIONS: tuple[Callable[[], Iterator[Finding]], ...] = (
    examine_python,
    examine_packages,
    examine_torch,
    examine_families,
    examine_player,
)
