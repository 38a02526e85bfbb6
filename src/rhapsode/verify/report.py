"""Formats a verification as text that users can paste into a bug report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rhapsode.bench.machine import machine, revision, versions
from rhapsode.models.registry import Model
from rhapsode.verify.finding import CheckResult


def header(name: str, model: Model, place: str) -> list[str]:
    """Returns lines that name the model, the software and the machine of a verification."""
    info, hardware, found = model.info(), machine(), versions()
    wanted = ("rhapsode", "torch", "python")
    software = ", ".join(f"{package} {found[package]}" for package in wanted if package in found)
    commit = revision()
    return [
        f"rhapsode verify {name}",
        f"model: {info.title}: {info.summary}; can: {', '.join(info.can.names())}",
        f"software: {software}" + (f", commit {commit[:12]}" if commit else ""),
        f"machine: {hardware['cpu']}, {hardware['cores']} cores, {place}",
    ]


def line(result: CheckResult) -> str:
    more = "".join(f"\n{'':10}{one}" for one in result.more)
    return f"{result.verdict:>8}  {result.subject}: {result.detail}{more}"


def verdict(results: Sequence[CheckResult]) -> str:
    """Returns the last line: whether the checkpoint passed."""
    failed = sum(result.verdict == "failed" for result in results)
    warned = sum(result.verdict == "warning" for result in results)
    if failed:
        return f"verdict: failed ({failed} failed, {warned} warnings)"
    return f"verdict: passed with {warned} warnings" if warned else "verdict: passed"


def as_dict(head: Sequence[str], results: Sequence[CheckResult]) -> dict[str, Any]:
    return {"header": list(head), "results": [vars(result) for result in results], "verdict": verdict(results)}
