"""The table of an evaluation, from its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from records import Records, Task
from rhapsode.bench.quality.words import corpus, rates

WORST = 10
MEASURES = ("words", "mos", "dnsmos", "likeness")


def present(work: Path, wanted: Sequence[Task]) -> str:
    """Returns Markdown: a row for each voice and set, likeness of voices, the worst prompts."""
    known = {name: Records(work / f"{name}.jsonl").found for name in ("spoken", *MEASURES)}
    lines = [
        "| voice | prompts | spoken | errors | heard | WER | DistillMOS | RTF | first audio, ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for voice, name in dict.fromkeys((task.voice, task.set) for task in wanted):
        ours = [task for task in wanted if (task.voice, task.set) == (voice, name)]
        lines.append("| " + " | ".join([voice, name, *_figures(ours, known)]) + " |")
    return "\n".join([*lines, "", *_likeness(wanted, known["likeness"]), "", *_worst(wanted, known["words"])])


def _figures(ours: list[Task], known: dict[str, Any]) -> list[str]:
    spoken = [known["spoken"][task.key] for task in ours if task.key in known["spoken"]]
    errors = Counter(one["error"] for one in spoken if one["error"])
    good = [one for one in spoken if not one["error"]]
    heard = [(task.prompt.text, known["words"][task.key]["value"]) for task in ours if task.key in known["words"]]
    mos = [known["mos"][task.key]["value"] for task in ours if task.key in known["mos"]]
    return [
        f"{len(spoken)} of {len(ours)}",
        ", ".join(f"{count} {kind}" for kind, count in errors.items()) or "0",
        str(len(heard)),
        f"{corpus(heard).wer:.2%}" if heard else "",
        f"{fmean(mos):.2f}" if mos else "",
        f"{sum(one['rtf'] * one['audio_s'] for one in good) / sum(one['audio_s'] for one in good):.3f}" if good else "",
        f"{1000 * median(one['first_audio_s'] for one in good):.0f}" if good else "",
    ]


def _likeness(wanted: Sequence[Task], vectors: dict[str, Any]) -> list[str]:
    """Mean similarity of different clips: of one voice, and of two."""
    heard = {
        voice: np.array([vectors[task.key]["value"] for task in wanted if task.voice == voice and task.key in vectors])
        for voice in dict.fromkeys(task.voice for task in wanted)
    }
    heard = {voice: found for voice, found in heard.items() if len(found) > 1}
    same = {voice: _among(found) for voice, found in heard.items()}
    different = {(a, b): float(np.mean(heard[a] @ heard[b].T)) for a, b in combinations(heard, 2)}
    if not same:
        return []
    lowest = min(same, key=same.__getitem__)
    lines = [f"Same speaker (Resemblyzer): lowest {same[lowest]:.3f} ({lowest})."]
    if different:
        closest = max(different, key=different.__getitem__)
        lines.append(f"Different speakers: highest {different[closest]:.3f} ({closest[0]} and {closest[1]}).")
    return lines


def _among(vectors: np.ndarray) -> float:
    """Mean of all pairs of different rows: all pairs without the diagonal."""
    count = len(vectors)
    return float((np.sum(vectors @ vectors.T) - np.sum(vectors * vectors)) / (count * (count - 1)))


def _worst(wanted: Sequence[Task], words: dict[str, Any]) -> list[str]:
    heard = [(task, words[task.key]["value"]) for task in wanted if task.key in words]
    scored = [(rates(task.prompt.text, said).wer, task, said) for task, said in heard]
    worst = sorted((one for one in scored if one[0] > 0), key=lambda one: -one[0])[:WORST]
    return [f"- {wer:.0%} {task.key}: {task.prompt.text} — {said.strip()}" for wer, task, said in worst]
