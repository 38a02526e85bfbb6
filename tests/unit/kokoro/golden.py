"""Upstream's results in float64, and the checkpoint that they were made with."""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rhapsode.checkpoints.folder import read_config
from rhapsode.models.base import StageContext
from rhapsode.models.kokoro.net.net import KokoroNet
from rhapsode.models.kokoro.parts import kokoro_net
from rhapsode.models.kokoro.spec import SPEC

GOLDEN = Path(__file__).parents[2] / "golden" / "kokoro"
INDEX: dict[str, Any] = json.loads((GOLDEN / "index.json").read_text("utf-8"))
TEXT: dict[str, Any] = json.loads((GOLDEN / "text_cases.json").read_text("utf-8"))
_ARRAYS = np.load(GOLDEN / "arrays.npz")
CASES = {case["name"]: case for case in INDEX["cases"]}


def golden(name: str) -> dict[str, torch.Tensor]:
    """The arrays of a case; ids and durations as int64."""
    found = {key.removeprefix(f"{name}/"): _ARRAYS[key] for key in _ARRAYS.files if key.startswith(f"{name}/")}
    arrays = {key: array.astype(np.int64) if array.dtype.kind == "i" else array for key, array in found.items()}
    return {key: torch.from_numpy(array) for key, array in arrays.items()}


def noise(samples: int, dtype: torch.dtype, table: np.ndarray | None = None) -> torch.Tensor:
    """The noise of upstream's runs, `[1, samples, harmonics]`."""
    rows = torch.from_numpy(_ARRAYS["noise"] if table is None else table).to(dtype)
    return rows[torch.arange(samples) % len(rows)][None]


def unpack(folder: Path) -> Path:
    """Writes the checkpoint as it is published. Rows of tables that no case uses, and the pooler, are zeros."""
    planes = np.frombuffer(lzma.decompress((GOLDEN / "weights.xz").read_bytes()), np.uint8).reshape(4, -1)
    values, at = planes.T.copy().view("<f4")[:, 0], 0
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, shape, rows in INDEX["tensors"]:
        made = np.zeros(shape, np.float32)
        wanted = made.shape if rows is None else (len(rows), *shape[1:])
        count = int(np.prod(wanted))
        made[slice(None) if rows is None else rows] = values[at : at + count].reshape(wanted)
        at += count
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[f"module.{rest}"] = torch.from_numpy(made)
    (folder / "voices").mkdir(parents=True)
    for voice, table in golden("voices").items():
        torch.save(table, folder / "voices" / f"{voice}.pt")
    torch.save(parts, folder / "kokoro-v1_0.pth")
    (folder / "config.json").write_text(json.dumps(INDEX["config"]), "utf-8")
    return folder


def context(folder: Path, dtype: str = "float32", **given: Any) -> StageContext:
    return StageContext(SPEC, folder, read_config(folder), "cpu", dtype, **given)


@cache
def net(folder: Path, dtype: str) -> KokoroNet:
    return kokoro_net(context(folder, dtype))
