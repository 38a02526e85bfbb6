"""The shape of a diffusion transformer. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DiTConfig:
    """A transformer over frames whose adaptive norms are told the time."""

    features: int
    """Numbers of a frame, such as the channels of a mel frame."""
    conditions: int
    """Numbers that are given for each frame."""
    dim: int
    depth: int
    heads: int
    head_dim: int
    ffn: int
    steps: int
    """Euler steps. Their times are fixed."""
    rotated: int | None = None
    """Heads that the rotary embedding rotates; `None`: all."""
    eps: float = 1e-6

    @property
    def inner(self) -> int:
        """Channels of all heads together."""
        return self.heads * self.head_dim
