"""The language model, built and filled with the tensors of a checkpoint."""

from __future__ import annotations

import torch

from rhapsode.checkpoints.files import read_file
from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.cosyvoice3 import net
from rhapsode.models.cosyvoice3.config import CosyConfig
from rhapsode.models.cosyvoice3.spec import CosySettings
from rhapsode.models.parts import checkpoint_of, fill

LLM = {"base": "llm.pt", "rl": "llm.rl.pt"}


def talker(config: CosyConfig, context: StageContext) -> net.CosyNet:
    """Returns the language model that the deployment's `llm` names."""
    return fill(
        lambda: net.CosyNet(config),
        context,
        lambda: _weights(context),
        names=net.NAMES,
        ignore=net.UNUSED,
        dtype=getattr(torch, context.dtype),
    )


def _weights(context: StageContext) -> TensorsInMemory:
    settings: CosySettings = context.settings
    file = checkpoint_of(context) / LLM[settings.llm]
    if not file.is_file():
        raise CheckpointError(f"{file.parent} holds no {file.name}, which 'llm: {settings.llm}' needs.")
    return TensorsInMemory(file, read_file(file))
