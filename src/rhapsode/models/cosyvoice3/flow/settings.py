"""The sizes of the flow, from the `flow` section of a checkpoint's YAML file. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError
from rhapsode.nn.dit.config import DiTConfig

WHERE = "the section 'flow'"
TIMESTEPS = 10
"""Euler steps; upstream's code has this number, its files do not."""
MOST_PROMPT_S = 30.0
"""Seconds of the longest reference."""
MAX_FRAMES = 15_000
"""Mel frames of the noise buffer: the longest sequence, prompt included."""


@dataclass(frozen=True)
class DiTSettings:
    """The sizes of the diffusion transformer, as the section `estimator` has them."""

    dim: int
    depth: int
    heads: int
    dim_head: int
    static_chunk_size: int
    """Mel frames of a chunk."""
    ff_mult: int = 4

    def __post_init__(self) -> None:
        if self.static_chunk_size < 1:
            raise CheckpointError(f"'static_chunk_size' of {WHERE} must be above 0: this flow works in chunks.")


@dataclass(frozen=True)
class FlowSettings:
    """The sizes of the whole flow."""

    vocab_size: int
    """The number of speech tokens."""
    output_size: int
    """Channels of a mel frame."""
    spk_embed_dim: int
    token_mel_ratio: int
    """Mel frames per token."""
    pre_lookahead_len: int
    """Tokens of look-ahead."""
    lookahead_channels: int
    inference_cfg_rate: float
    dit: DiTSettings
    input_frame_rate: int = 25
    """Tokens per second."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FlowSettings:
        """Reads the section `flow`, whose YAML references are resolved already."""
        decoder = section(values, "decoder", WHERE)
        guidance = section(section(decoder, "cfm_params", WHERE), "content", WHERE)
        found = {
            **values,
            "lookahead_channels": section(values, "pre_lookahead_layer", WHERE).get("channels"),
            "inference_cfg_rate": guidance.get("inference_cfg_rate"),
            "dit": parse(DiTSettings, section(decoder, "estimator", WHERE), WHERE),
        }
        return parse(cls, found, WHERE)

    def __post_init__(self) -> None:
        if self.dit.static_chunk_size % self.token_mel_ratio:
            raise CheckpointError(f"a chunk of {WHERE} must be whole tokens of {self.token_mel_ratio} mel frames each.")

    @property
    def transformer(self) -> DiTConfig:
        """The shape of the transformer. It is told the prompt, the tokens and the speaker.

        The published weights were trained with a rotary embedding of the first head alone.
        """
        dit, mel = self.dit, self.output_size
        shape = (dit.dim, dit.depth, dit.heads, dit.dim_head, dit.dim * dit.ff_mult)
        return DiTConfig(mel, 3 * mel, *shape, TIMESTEPS, rotated=1)

    @property
    def chunk_tokens(self) -> int:
        return self.dit.static_chunk_size // self.token_mel_ratio

    def tokens_in(self, seconds: float) -> int:
        """Returns how many tokens `seconds` of speech have."""
        return int(seconds * self.input_frame_rate)

    def final_chunks(self, prompt_tokens: int) -> int:
        """Returns how many chunks of a prompt do not depend on later tokens."""
        return max(prompt_tokens - self.pre_lookahead_len, 0) // self.chunk_tokens
