"""`rhapsode doctor`: checks what works on this machine, what is missing, and how to install it."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import typer

from rhapsode.extras import how_to_add


@dataclass(frozen=True)
class Finding:
    """The result of one check. `works` is None if something optional is not installed."""

    subject: str
    works: bool | None
    detail: str


def doctor() -> None:
    """Check what works on this machine. Exits with 1 if something is broken."""
    findings = [finding for check in CHECKS for finding in check()]
    marks = {True: ("ok", "green"), False: ("BROKEN", "red"), None: ("absent", "yellow")}
    for finding in findings:
        word, colour = marks[finding.works]
        typer.echo(f"{typer.style(f'{word:>7}', fg=colour)}  {finding.subject:<18} {finding.detail}")
    if any(finding.works is False for finding in findings):
        raise typer.Exit(1)


def check_python() -> Iterator[Finding]:
    yield Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} on {platform.platform()}")


def check_packages() -> Iterator[Finding]:
    needed = {"numpy": "numpy", "av": "av", "soxr": "soxr", "sentencex": "sentencex", "pydantic": "pydantic"}
    for module, package in needed.items():
        yield _check_import(module, package)


def check_torch() -> Iterator[Finding]:
    finding = _check_import("torch", "torch")
    yield finding
    if finding.works:
        import torch

        count = torch.cuda.device_count()
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(count))
        yield Finding("gpu", True if count else None, names or f"none; {torch.get_num_threads()} CPU threads")


def check_kernels() -> Iterator[Finding]:
    if importlib.util.find_spec("torch") is None:
        return
    from rhapsode.nn.kernels.cpu.library import library

    without = "no C compiler (cc): PyTorch's operators are used on a CPU, which take about twice as long"
    found = library() is not None
    yield Finding("C kernels", found or None, "compiled for this processor" if found else without)


def check_families() -> Iterator[Finding]:
    from rhapsode.errors import RhapsodeError
    from rhapsode.models.packaged import PACKAGED
    from rhapsode.models.registry import families, find, how_to_get, missing

    for name in PACKAGED:
        try:
            yield Finding(f"model {name}", True, f"in this package, a checkpoint of {find(name).spec.name}")
        except RhapsodeError as error:
            yield Finding(f"model {name}", False, error.message)
    found, broken = families()
    for spec in found.values():
        absent = missing(spec)
        detail = f"needs {', '.join(absent)}: {how_to_get(spec)}" if absent else spec.summary
        yield Finding(f"model {spec.name}", None if absent else True, detail)
    for one in broken:
        yield Finding(f"model {one.name}", False, one.error)


def check_player() -> Iterator[Finding]:
    from rhapsode.cli.player import FILE_PLAYERS, find_player

    player = find_player()
    yield Finding("player", True if player else None, player or f"install one of: {', '.join(FILE_PLAYERS)}")


def _check_import(module: str, package: str) -> Finding:
    try:
        importlib.import_module(module)
        return Finding(package, True, version(package))
    except (ImportError, PackageNotFoundError) as error:
        return Finding(package, False, f"{error}; {how_to_add(package)}")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python,
    check_packages,
    check_torch,
    check_kernels,
    check_families,
    check_player,
)
