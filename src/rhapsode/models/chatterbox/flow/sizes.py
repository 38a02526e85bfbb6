"""The sizes of the flow. A checkpoint has no config file, so they are read from the shapes of its tensors."""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.checkpoints.weights import Tensors
from rhapsode.errors import CheckpointError
from rhapsode.models.chatterbox.shapes import TensorShapes

PREFIX = "flow."
TOKEN_HZ = 25
"""Speech tokens per second."""
RATE = 2
"""Mel frames per token."""
HEAD_DIM = 64
"""The width of an attention head of the estimator; no tensor shows it."""
MOST_PROMPT_TOKENS = 250
"""Tokens of the longest reference: ten seconds."""


@dataclass(frozen=True)
class ConformerSizes:
    hidden: int
    ffn: int
    heads: int
    layers: int
    """Layers at the rate of tokens."""
    up_layers: int
    """Layers at the rate of mel frames."""
    lookahead: int
    """Tokens after a token that its first convolutions see."""


@dataclass(frozen=True)
class EstimatorSizes:
    """The network that predicts velocities."""

    mel: int
    channels: int
    inner: int
    """Channels of all attention heads together."""
    ffn: int
    mid_blocks: int
    layers: int
    """Transformer layers of a block."""
    waves: int
    """Sines and cosines that describe a time."""
    time: int
    """Channels of the embedding of a time."""
    meanflow: bool
    """Whether a velocity is the mean over a step, which it then also depends on; there is no guidance."""

    def __post_init__(self) -> None:
        if self.inner % HEAD_DIM:
            raise CheckpointError(f"the flow's attention has {self.inner} channels: not whole heads of {HEAD_DIM}.")

    @property
    def blocks(self) -> int:
        return self.mid_blocks + 2


@dataclass(frozen=True)
class S3FlowSizes:
    vocabulary: int
    speaker: int
    """Numbers of a speaker vector."""
    conformer: ConformerSizes
    estimator: EstimatorSizes

    @property
    def mel(self) -> int:
        return self.estimator.mel

    @classmethod
    def of(cls, tensors: Tensors) -> S3FlowSizes:
        found = TensorShapes(tensors, PREFIX)
        layer, unet = "encoder.encoders.0.", "decoder.estimator."
        conformer = ConformerSizes(
            hidden=found.size("encoder.after_norm.weight"),
            ffn=found.size(f"{layer}feed_forward.w_1.weight"),
            heads=found.size(f"{layer}self_attn.pos_bias_u"),
            layers=found.count("encoder.encoders."),
            up_layers=found.count("encoder.up_encoders."),
            lookahead=found.size("encoder.pre_lookahead_layer.conv1.weight", 2) - 1,
        )
        first = f"{unet}mid_blocks.0."
        estimator = EstimatorSizes(
            mel=found.size(f"{unet}final_proj.weight"),
            channels=found.size(f"{unet}final_proj.weight", 1),
            inner=found.size(f"{first}1.0.attn1.to_q.weight"),
            ffn=found.size(f"{first}1.0.ff.net.0.proj.weight"),
            mid_blocks=found.count(f"{unet}mid_blocks."),
            layers=found.count(f"{first}1."),
            waves=found.size(f"{unet}time_mlp.linear_1.weight", 1),
            time=found.size(f"{unet}time_mlp.linear_1.weight"),
            meanflow=f"{PREFIX}{unet}time_embed_mixer.weight" in tensors,
        )
        table = "input_embedding.weight"
        return cls(found.size(table), found.size("spk_embed_affine_layer.weight", 1), conformer, estimator)
