"""Builds the network of a checkpoint and fills it."""

from __future__ import annotations

from functools import cache

import torch

from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.models.base import StageContext
from rhapsode.models.kokoro.config import read_config
from rhapsode.models.kokoro.folder import config_of
from rhapsode.models.kokoro.net.albert import NAMES
from rhapsode.models.kokoro.net.decoder import Decoder
from rhapsode.models.kokoro.net.net import KokoroNet
from rhapsode.models.kokoro.net.text import TextNet
from rhapsode.models.kokoro.weights import UNUSED, read_weights
from rhapsode.models.parts import checkpoint_of, fill

DECODER = "decoder."
_TEXT_ONLY = f"{DECODER}*"


def kokoro_net(context: StageContext) -> KokoroNet:
    """Returns the network of a checkpoint, in float32 whatever the deployment's number format is.

    A duration is rounded to whole frames and the phase is a sum of pitches: both need the digits. What fewer of them do
    to the decoder has not been measured. Tests compare in float64.
    """
    dtype = torch.float64 if context.dtype == "float64" else torch.float32

    @cache
    def weights() -> TensorsInMemory:
        return read_weights(checkpoint_of(context))

    config = read_config(config_of(context.config), None if context.random_weights else weights())
    text = fill(
        lambda: TextNet(config),
        context,
        weights,
        ignore=(_TEXT_ONLY, *UNUSED),
        names=NAMES,
        dtype=dtype,
    )
    decoder = fill(
        lambda: Decoder(config, context.spec.sample_rate),
        context,
        weights,
        prefix=DECODER,
        dtype=dtype,
    )
    return KokoroNet(text, decoder)
