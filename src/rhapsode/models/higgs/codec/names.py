"""What the checkpoint calls the tensors of the codec, in the layout of transformers. Imports no torch."""

from __future__ import annotations

from rhapsode.models.higgs.codec.settings import DILATIONS, CodecSettings

V3_PREFIX = "tied.embedding.modality_embeddings.0.model."
"""The prefix of the codec's tensors in a checkpoint of v3."""
UNUSED = (
    "decoder_semantic.*",
    "fc1.*",
    "*.codebook.inited",
    "*.codebook.cluster_size",
    "*.codebook.embed_avg",
    "semantic_model.masked_spec_embed",
)
"""Tensors that only training needs."""
ENCODER_ONLY = ("acoustic_encoder.*", "encoder_semantic.*", "semantic_model.*", "fc.*", "*.project_in.*")
DECODER_ONLY = ("acoustic_decoder.*", "fc2.*")

_POSITIONS = "semantic_model.encoder.pos_conv_embed.conv"
OLD_MAGNITUDE = f"{_POSITIONS}.weight_g"
"""Only older files have a tensor of this name."""


def encoder_names(older: bool = False) -> dict[str, str]:
    """Maps the tensor names of `Hubert`'s convolution under weight norm to those of the checkpoint."""
    new = ("parametrizations.weight.original0", "parametrizations.weight.original1")
    magnitude, direction = ("weight_g", "weight_v") if older else new
    return {
        f"{_POSITIONS}.magnitude": f"{_POSITIONS}.{magnitude}",
        f"{_POSITIONS}.direction": f"{_POSITIONS}.{direction}",
    }


def decoder_names(settings: CodecSettings) -> dict[str, str]:
    """Maps the module names of `nn.vocoder` to those of the checkpoint."""
    ours, theirs = "vocoder.chain", "acoustic_decoder"
    blocks = len(settings.acoustic.upsampling_ratios)
    names = {
        f"{ours}.0.conv.": f"{theirs}.conv1.",
        f"{ours}.{blocks + 1}.": f"{theirs}.snake1.",
        f"{ours}.{blocks + 2}.conv.": f"{theirs}.conv2.",
    }
    for i in range(blocks):
        block, named = f"{ours}.{i + 1}.block", f"{theirs}.block.{i}"
        names |= {f"{block}.0.": f"{named}.snake1.", f"{block}.1.conv.": f"{named}.conv_t1."}
        for j in range(len(DILATIONS)):
            for one in ("1", "2"):
                unit = f"{named}.res_unit{j + 1}"
                names[f"{block}.{j + 2}.act{one}."] = f"{unit}.snake{one}."
                names[f"{block}.{j + 2}.conv{one}.conv."] = f"{unit}.conv{one}."
    return names
