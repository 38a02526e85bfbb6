"""What the flow needs of a request: tokens, mel frames and vector of the voice. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhapsode.errors import InvalidRequest
from rhapsode.models.chatterbox.flow.sizes import MOST_PROMPT_TOKENS, RATE, S3FlowSizes


@dataclass(frozen=True, eq=False)
class S3FlowPrompt:
    """A voice, for a slot of the flow."""

    tokens: NDArray[np.int64]  # [P]
    mel: NDArray[np.float32]  # [P * RATE, mel]
    embedding: NDArray[np.float32]  # [E]


def s3_flow_prompt(
    sizes: S3FlowSizes, tokens: NDArray[np.int64], mel: NDArray[np.float32], embedding: NDArray[np.float32]
) -> S3FlowPrompt:
    """Makes the prompt of a voice: its `tokens [P]`, `mel [F, channels]` and `embedding [E]`.

    Mel frames past those of the tokens are cut: with them, speech would begin so many frames too late.
    """
    tokens = np.asarray(tokens, np.int64).reshape(-1)
    embedding = np.asarray(embedding, np.float32).reshape(-1)
    wanted = RATE * len(tokens)
    if mel.ndim != 2 or mel.shape[1] != sizes.mel or len(mel) < wanted:
        raise InvalidRequest(
            f"A voice of {len(tokens)} tokens needs {wanted} mel frames of {sizes.mel} numbers, not {list(mel.shape)}."
        )
    if len(tokens) > MOST_PROMPT_TOKENS:
        raise InvalidRequest(f"A voice has at most {MOST_PROMPT_TOKENS} tokens, not {len(tokens)}.")
    if embedding.shape != (sizes.speaker,):
        raise InvalidRequest(f"A speaker embedding has {sizes.speaker} numbers, not {embedding.size}.")
    if len(tokens) and not (tokens.min() >= 0 and tokens.max() < sizes.vocabulary):
        raise InvalidRequest(f"Speech tokens are from 0 to {sizes.vocabulary - 1}.")
    return S3FlowPrompt(tokens, np.ascontiguousarray(mel[:wanted], np.float32), embedding)
