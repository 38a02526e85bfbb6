"""Joins the metrics of several replicas into one Prometheus page, with labels that name the replica."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def join(pages: Iterable[tuple[Mapping[str, str], str]]) -> str:
    """Joins pages into one. Prometheus needs the samples of one metric together, under one description."""
    about: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for labels, page in pages:
        extra = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
        family = ""
        for line in page.splitlines():
            if line.startswith("# HELP "):
                family = line.split(" ", 3)[2]
                is_new = family not in about
                about.setdefault(family, [])
                samples.setdefault(family, [])
            if line.startswith("#"):
                if is_new:
                    about[family].append(line)
            elif line:
                samples[family].append(_labelled(line, extra))
    return "".join(f"{line}\n" for family in about for line in (*about[family], *samples[family]))


def _labelled(sample: str, extra: str) -> str:
    if not extra:
        return sample
    name, brace, rest = sample.partition("{")
    if brace and " " not in name:
        return f"{name}{{{extra},{rest}"
    name, _, value = sample.partition(" ")
    return f"{name}{{{extra}}} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
