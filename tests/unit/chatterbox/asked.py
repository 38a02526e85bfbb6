"""Upstream's results, and our stages up to the talker, run as the engine runs them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhapsode.checking.request import checked
from rhapsode.config import Limits
from rhapsode.models.base import Following, StageContext
from rhapsode.models.chatterbox.encode import ChatterboxEncode
from rhapsode.models.chatterbox.info import describe
from rhapsode.models.chatterbox.prepare import ChatterboxPrepare
from rhapsode.models.chatterbox.spec import SPEC, ChatterboxSettings
from rhapsode.models.chatterbox.t3.prompt import T3Prompt
from rhapsode.models.chatterbox.t3.talker import ChatterboxTalker
from rhapsode.types import SpeechRequest
from tiny.chatterbox import GOLDEN

TEXTS: dict[str, Any] = json.loads((GOLDEN / "text.json").read_text("utf-8"))
CASES: dict[str, dict[str, Any]] = TEXTS["cases"]
_ARRAYS = np.load(GOLDEN / "t3.npz")


def golden(name: str) -> dict[str, np.ndarray]:
    """The arrays of a case; ids as int64."""
    found = {key.removeprefix(f"{name}/"): _ARRAYS[key] for key in _ARRAYS.files if key.startswith(f"{name}/")}
    return {key: array.astype(np.int64) if array.dtype.kind == "i" else array for key, array in found.items()}


@dataclass
class Family:
    """One checkpoint's stages, from requests to tokens."""

    prepare: ChatterboxPrepare
    encode: ChatterboxEncode
    talker: ChatterboxTalker
    context: StageContext

    @classmethod
    def open(cls, folder: Path, dtype: str = "float32", **settings: Any) -> "Family":
        context = StageContext(SPEC, folder, {}, "cpu", dtype, settings=ChatterboxSettings(**settings))
        return cls(ChatterboxPrepare(context), ChatterboxEncode(context), ChatterboxTalker(context), context)

    def prompt(self, asked: SpeechRequest) -> T3Prompt:
        """The first prompt of a request."""
        return self._made(checked(asked, SPEC, self.info, Limits()))

    def prompts(self, asked: SpeechRequest) -> Iterator[T3Prompt]:
        """All prompts of a request, as long as they are known."""
        made: Any = self.prompt(asked)
        while made is not None:
            yield made
            following = made.following()
            assert following is not Following.NOT_YET
            made = following and self._made(following)

    @property
    def info(self) -> Any:
        context = self.context
        assert context.checkpoint is not None
        return describe(SPEC.info(), context.checkpoint, context.config, context.settings)

    def _made(self, work: Any) -> T3Prompt:
        return self.encode([self.prepare(work)])[0]
