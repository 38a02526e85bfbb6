"""Upstream's results, their checkpoint, and our stages, run as the engine runs them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rhapsode.checking.request import checked
from rhapsode.checkpoints.folder import read_config
from rhapsode.config import Limits
from rhapsode.models.base import Following, StageContext
from rhapsode.models.cosyvoice3.encode import CosyEncode
from rhapsode.models.cosyvoice3.prepare import CosyPrepare
from rhapsode.models.cosyvoice3.prompt import CosyPrompt
from rhapsode.models.cosyvoice3.spec import SPEC, CosySettings
from rhapsode.models.cosyvoice3.talker import CosyTalker
from rhapsode.types import SpeechRequest
from tiny import weights
from tiny.talking import TalkerHarness

GOLDEN = Path(__file__).parents[2] / "golden" / "cosyvoice3"
INDEX: dict[str, Any] = json.loads((GOLDEN / "index.json").read_text("utf-8"))
CODES = INDEX["special"]["speech_token_size"]
KEPT = CODES + 6
"""Logits that the goldens hold: speech tokens, and special ones up to the fill token."""
_ARRAYS = np.load(GOLDEN / "language_model.npz")


def golden(name: str) -> dict[str, np.ndarray]:
    """The arrays of a case; ids as int64."""
    found = {key.removeprefix(f"{name}/"): _ARRAYS[key] for key in _ARRAYS.files if key.startswith(f"{name}/")}
    return {key: array.astype(np.int64) if array.dtype.kind == "i" else array for key, array in found.items()}


def unpack(folder: Path) -> Path:
    """Writes the golden checkpoint without flow and vocoder; rows of tables that no case uses are made from seeds."""
    for key in (key for key in _ARRAYS.files if key.startswith("text/")):
        file = folder / key.removeprefix("text/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_ARRAYS[key].tobytes())
    (folder / "spk2info.pt").write_bytes((GOLDEN / "spk2info.pt").read_bytes())
    planes = np.stack([_ARRAYS[f"llm_{i}"] for i in range(4)], axis=1)
    values, at, tensors = planes.copy().view(np.float32)[:, 0], 0, {}
    for name, shape, rows in INDEX["tensors"]:
        made = weights.spread(name, tuple(shape), 0.5, 0)
        count = int(np.prod(shape)) if rows is None else len(rows) * shape[1]
        part = values[at : at + count]
        at += count
        made[slice(None) if rows is None else rows] = part.reshape(shape if rows is None else (-1, shape[1]))
        tensors[name] = torch.from_numpy(made)
    tensors["llm.model.lm_head.weight"] = tensors["llm.model.model.embed_tokens.weight"]
    torch.save(tensors, folder / "llm.pt")
    return folder


@dataclass
class Family:
    """One checkpoint's stages, from requests to tokens."""

    prepare: CosyPrepare
    encode: CosyEncode
    talker: CosyTalker

    @classmethod
    def open(cls, folder: Path, **settings: Any) -> "Family":
        config = read_config(folder, "cosyvoice3.yaml")
        context = StageContext(SPEC, folder, config, "cpu", "float32", settings=CosySettings(**settings))
        return cls(CosyPrepare(context), CosyEncode(context), CosyTalker(context))

    def prompt(self, asked: SpeechRequest) -> CosyPrompt:
        """The first prompt of a request."""
        return self.encode(self.prepare(checked(asked, SPEC, SPEC.info(), Limits())))

    def prompts(self, asked: SpeechRequest) -> Iterator[CosyPrompt]:
        """All prompts of a request whose text is known."""
        yield from after(self.prompt(asked))


def after(prompt: CosyPrompt) -> Iterator[CosyPrompt]:
    """This prompt and those that follow it, as long as they are known."""
    following: Any = prompt
    while isinstance(following, CosyPrompt):
        yield following
        following = following.following() if following.following else None
        assert following is not Following.NOT_YET


def rows_of(prompt: CosyPrompt) -> list[int]:
    return [*prompt.content[:, 0].tolist(), *prompt.last[:, 0].tolist()]


Pick = Callable[[torch.Tensor, list[int]], int]


@dataclass
class Spoken:
    """What a talker was fed, launch by launch, and what it made of it."""

    inputs: list[list[int]] = field(default_factory=list)
    logits: list[np.ndarray] = field(default_factory=list)
    picks: list[int] = field(default_factory=list)


class Speaker:
    """Speaks prompts one after the other in one slot; `pick(logits, picks so far)` chooses instead of sampling."""

    def __init__(self, talker: CosyTalker, pick: Pick) -> None:
        self._stage = TalkerHarness(talker, positions=1024)
        self._talker, self._pick = talker, pick
        self.spoken = Spoken()

    def speak(self, prompt: CosyPrompt, most: int | None = None) -> bool:
        """Speaks until the prompt ends; returns whether it ended by itself."""
        stage, talker = self._stage, self._talker
        if not prompt.continues:
            stage.join([0], [prompt])
        else:
            base = int(stage.table.position[0])
            talker.prefill([prompt], [(0, prompt.length, base)], stage.rows(0), stage.state)
            stage.table.position[0] += prompt.length
        unfed = [*(self._unfed if prompt.continues else ()), *rows_of(prompt)]
        self._unfed: list[int] = unfed if not prompt.max_frames else []
        for _ in range(prompt.max_frames if most is None else most):
            step = self._step()
            self.spoken.inputs.append(unfed)
            unfed = [int(step.frames[0, 0]) + self._talker.net.speech_start]
            if bool(step.stopped):
                return True
        return False

    def _step(self) -> Any:
        spoken, real = self.spoken, self._talker._draw

        def chosen(logits: torch.Tensor, count: torch.Tensor, *rest: Any) -> torch.Tensor:
            spoken.logits.append(logits[0].numpy())
            return torch.tensor([self._pick(logits[0], spoken.picks)])

        self._talker._draw = chosen
        try:
            step = self._stage.step(0)
        finally:
            self._talker._draw = real
        place = int(self._stage.table.step[0] - 1) % self._stage.state.recent.shape[1]
        spoken.picks.append(int(self._stage.state.recent[0, place]))
        return step


def walk(logits: torch.Tensor, picks: list[int]) -> int:
    """The best speech token that is not among the last ten picks."""
    scores = logits[:CODES].clone()
    scores[[pick for pick in picks[-10:] if pick < CODES]] = -torch.inf
    return int(scores.argmax())
