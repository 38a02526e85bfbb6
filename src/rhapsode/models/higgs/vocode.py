"""Finds the codec of a checkpoint: v2's has a repository of its own, v3's is among the checkpoint's tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rhapsode.checkpoints.folder import read_config
from rhapsode.checkpoints.weights import Tensors, open_weights
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.higgs.codec import parts
from rhapsode.models.higgs.codec.names import V3_PREFIX
from rhapsode.models.higgs.codec.reference import ReferenceEncoder
from rhapsode.models.higgs.codec.settings import CodecSettings
from rhapsode.models.higgs.codec.worker import HiggsCodec
from rhapsode.models.higgs.config import HiggsConfig, read_v2, read_v3
from rhapsode.models.parts import checkpoint_of

V3_FOLDER = "audio_tokenizer"
"""The folder of a v3 checkpoint whose `config.json` has the codec's sizes. Without it, the sizes are those of v2."""


@dataclass(frozen=True)
class CodecFiles:
    """A codec's sizes, the folder with its tensors, and what their names begin with."""

    settings: CodecSettings
    folder: Path
    prefix: str = ""

    @classmethod
    def of(cls, config: HiggsConfig, context: StageContext) -> CodecFiles:
        """Finds the codec of a checkpoint."""
        if config.generation == 2:
            folder = context.companion("codec")
            found = cls(CodecSettings.from_dict(read_config(folder)), folder)
        else:
            folder = checkpoint_of(context)
            given = folder / V3_FOLDER
            settings = CodecSettings.from_dict(read_config(given)) if given.is_dir() else CodecSettings()
            found = cls(settings, folder, V3_PREFIX)
        there, wanted = (found.settings.quantizers, found.settings.codebook_size), (config.books, config.codes)
        if there != wanted:
            raise CheckpointError(
                f"the codec has {there[0]} codebooks of {there[1]} codes, and the model {wanted[0]} of {wanted[1]}."
            )
        return found

    def tensors(self) -> Tensors:
        return open_weights(self.folder)

    def encoder(self, context: StageContext, shortest_s: float) -> ReferenceEncoder:
        return ReferenceEncoder(parts.encoder(self.settings, context, self.tensors, self.prefix), shortest_s)

    def worker(self, context: StageContext) -> HiggsCodec:
        return HiggsCodec(parts.decoder(self.settings, context, self.tensors, self.prefix))


def v2_codec(context: StageContext) -> HiggsCodec:
    """Returns the worker of v2's codec stage."""
    return CodecFiles.of(read_v2(context.config), context).worker(context)


def v3_codec(context: StageContext) -> HiggsCodec:
    """Returns the worker of v3's codec stage."""
    return CodecFiles.of(read_v3(context.config), context).worker(context)
