"""What all adapters share: the job, its answers, and stand-ins for packages that upstream imports but does not use.

The Python that runs this has upstream's package and NumPy, and not Rhapsode.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import os
import sys
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class UpstreamJob:
    """What one run of an adapter is to speak."""

    checkpoint: str
    device: str
    frames: int
    """The most frames of an utterance."""
    items: tuple[Mapping[str, Any], ...]
    """`id`, `mode`, `text`, and by mode `voice`, `reference` (a WAV file) or `description`; `seed`."""
    out: Path


@dataclass(frozen=True)
class UpstreamSpeech:
    """One utterance: mono samples, and the frames it was made of where there are any."""

    wave: Any
    sample_rate: int
    frames: Any = None


Speak = Callable[[Mapping[str, Any]], UpstreamSpeech]


def run(open_model: Callable[[UpstreamJob], Speak], package: str) -> None:
    """Speaks the job on standard input, and says on standard output how it went, in JSON lines."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever upstream prints goes to standard error
    given = json.load(sys.stdin)
    items = tuple(given["items"])
    job = UpstreamJob(given["checkpoint"], given["device"], given["frames"], items, Path(given["out"]))

    def answer(**content: Any) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    speak = open_model(job)
    answer(ready=f"{package} {_version(package)}")
    for item in job.items:
        started_s = time.perf_counter()
        try:
            made = speak(item)
        except Exception as error:  # one text that upstream refuses must not end the others
            answer(id=item["id"], error=f"{type(error).__name__}: {error}")
            continue
        took_s = time.perf_counter() - started_s
        arrays: dict[str, Any] = {
            "wave": np.asarray(made.wave, np.float32).reshape(-1),
            "sample_rate": np.array(made.sample_rate),
        }
        if made.frames is not None:
            arrays["frames"] = np.asarray(made.frames)
        np.savez(job.out / f"{item['id']}.npz", **arrays)
        answer(id=item["id"], took_s=took_s)


def stand_in(name: str, **content: Any) -> None:
    """Puts an empty module in place of a package that cannot be imported, with its parents."""
    try:
        importlib.import_module(name)
    except Exception:  # missing, or built for another torch
        for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
            del sys.modules[known]
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        module.__dict__.update(content)
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], last, module)


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
