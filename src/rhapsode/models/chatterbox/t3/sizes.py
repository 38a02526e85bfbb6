"""The sizes of a T3, read from the shapes of its tensors: no file names them. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhapsode.checkpoints.header import tensor_shapes
from rhapsode.checkpoints.outline import TensorOutline
from rhapsode.errors import CheckpointError
from rhapsode.models.chatterbox.shapes import TensorShapes

if TYPE_CHECKING:
    from rhapsode.checkpoints.weights import Tensors

HEAD_DIM = 64
"""Channels of an attention head; no tensor shows it."""
CODES = 6561
"""Speech tokens that the flow has: 3 to the power of 8. Ids from here on are special."""
START, STOP = CODES, CODES + 1
"""The ids before the first speech token and after the last one."""


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
    if file.suffix == ".safetensors":
        listed = {name: list(shape) for name, (_, shape) in tensor_shapes(file).items()}
        return sizes_of(TensorOutline(file, listed))
    from rhapsode.checkpoints.weights import open_file  # a pickle needs torch

    return sizes_of(open_file(file))


def sizes_of(tensors: Tensors) -> T3Sizes:
    """Returns the sizes of the T3 with these tensors."""
    found = TensorShapes(tensors)
    rows = found.size
    common: dict[str, Any] = {
        "hidden": rows("text_emb.weight", 1),
        "text_rows": rows("text_emb.weight"),
        "speech_rows": rows("speech_emb.weight"),
        "speaker": rows("cond_enc.spkr_enc.weight", 1),
    }
    if "tfmr.wpe.weight" in tensors:
        layers = found.count("tfmr.h.")
        ffn = rows("tfmr.h.0.mlp.c_fc.weight", 1)
        return T3Sizes(**common, ffn=ffn, layers=layers, gpt2=True, places=rows("tfmr.wpe.weight"))
    return T3Sizes(
        **common,
        ffn=rows("tfmr.layers.0.mlp.gate_proj.weight"),
        layers=found.count("tfmr.layers."),
        text_places=rows("text_pos_emb.emb.weight"),
        speech_places=rows("speech_pos_emb.emb.weight"),
        queries=rows("cond_enc.perceiver.pre_attention_query", 1),
    )
