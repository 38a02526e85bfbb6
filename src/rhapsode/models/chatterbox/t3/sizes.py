"""The sizes of a T3, read from the shapes of its tensors: no file names them. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.folder import parse
from rhapsode.checkpoints.header import tensor_shapes
from rhapsode.errors import CheckpointError

HEAD_DIM = 64
"""Channels of an attention head; no tensor shows it."""
CODES = 6561
"""Speech tokens that the flow has: 3 to the power of 8. Ids from here on are special."""
START, STOP = CODES, CODES + 1
"""The ids before the first speech token and after the last one."""

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class T3Sizes:
    """Rows and widths of one T3."""

    hidden: int
    ffn: int
    layers: int
    text_rows: int
    speech_rows: int
    speaker: int
    """Numbers of a voice's embedding."""
    gpt2: bool = False
    """Whether layers are GPT-2's, with one table of positions; else Llama's, with one for text and one for speech."""
    places: int = 0
    """Of GPT-2: positions of the longest prompt and its speech together."""
    text_places: int = 0
    speech_places: int = 0
    queries: int = 0
    """Rows to which the perceiver reduces the speech of a reference."""

    @property
    def heads(self) -> int:
        return self.hidden // HEAD_DIM

    @property
    def voice_rows(self) -> int:
        """Rows of a prompt that are computed from the voice: speaker, reference and exaggeration."""
        return 1 if self.gpt2 else 2 + self.queries

    def __post_init__(self) -> None:
        if self.hidden % HEAD_DIM or self.speech_rows <= STOP or not self.layers:
            raise CheckpointError(
                f"a T3 of {self.layers} layers, width {self.hidden} and {self.speech_rows} speech tokens cannot be: "
                f"heads have {HEAD_DIM} channels, and ids go up to {STOP}."
            )


def read_sizes(file: Path) -> T3Sizes:
    """Returns the sizes of the T3 in a file."""
    return sizes_of(_shapes(file), file)


def given_sizes(values: Mapping[str, Any], where: str) -> T3Sizes:
    """Returns the sizes that a file lists by name: for measurements, where there are no tensors."""
    return parse(T3Sizes, values, where)


def sizes_of(shapes: Shapes, file: Path) -> T3Sizes:
    """Returns the sizes of a T3 whose tensors have these shapes."""

    def rows(name: str, axis: int = 0) -> int:
        if name not in shapes:
            raise CheckpointError(f"{file} lacks the tensor '{name}'.")
        if len(shapes[name]) <= axis:
            raise CheckpointError(f"the tensor '{name}' of {file} has too few axes: {list(shapes[name])}.")
        return shapes[name][axis]

    common: dict[str, Any] = {
        "hidden": rows("text_emb.weight", 1),
        "text_rows": rows("text_emb.weight"),
        "speech_rows": rows("speech_emb.weight"),
        "speaker": rows("cond_enc.spkr_enc.weight", 1),
    }
    if "tfmr.wpe.weight" in shapes:
        layers = _count(shapes, "tfmr.h.")
        ffn = rows("tfmr.h.0.mlp.c_fc.weight", 1)
        return T3Sizes(**common, ffn=ffn, layers=layers, gpt2=True, places=rows("tfmr.wpe.weight"))
    return T3Sizes(
        **common,
        ffn=rows("tfmr.layers.0.mlp.gate_proj.weight"),
        layers=_count(shapes, "tfmr.layers."),
        text_places=rows("text_pos_emb.emb.weight"),
        speech_places=rows("speech_pos_emb.emb.weight"),
        queries=rows("cond_enc.perceiver.pre_attention_query", 1),
    )


def _count(shapes: Shapes, prefix: str) -> int:
    """Returns how many layers have tensors."""
    return len({name.removeprefix(prefix).partition(".")[0] for name in shapes if name.startswith(prefix)})


def _shapes(file: Path) -> Shapes:
    if file.suffix == ".safetensors":
        return {name: tuple(shape) for name, (_, shape) in tensor_shapes(file).items()}
    from rhapsode.checkpoints.weights import open_file  # a pickle needs torch

    tensors = open_file(file)
    return {name: tensors.shape(name) for name in tensors}
