"""Sizes come from the config; what no config says is derived."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rhapsode.errors import CheckpointError
from rhapsode.models.higgs.codec.reference import SEMANTIC_PADDING
from rhapsode.models.higgs.codec.settings import CodecSettings
from rhapsode.nn.symmetric import lookahead_frames
from tiny import higgs_codec as tiny

PUBLISHED = CodecSettings()


def changed(**keys: object) -> dict:
    return tiny.config(tiny.TinyCodec()) | keys


def test_the_built_in_sizes_are_the_published_ones():
    assert (PUBLISHED.hop, PUBLISHED.frame_rate, PUBLISHED.quantizers) == (960, 25, 8)
    assert (PUBLISHED.latent, PUBLISHED.codebook_size, PUBLISHED.semantic_stride) == (1024, 1024, 2)
    assert PUBLISHED.context == (10, 10)
    PUBLISHED.check()


@pytest.mark.parametrize(("rates", "frames"), [((8, 5, 4, 2, 3), 10), ((5, 8, 3, 4, 2), 13), ((2, 2), 34), ((7,), 10)])
def test_the_context_depends_on_the_order_of_the_strides(rates, frames):
    acoustic = replace(PUBLISHED.acoustic, upsampling_ratios=rates, downsampling_ratios=rates)
    context = replace(PUBLISHED, acoustic=acoustic).context
    assert context.after == lookahead_frames(rates) == frames
    assert context.before in (frames - 1, frames)


def test_sizes_are_read_from_the_file():
    settings = CodecSettings.from_dict(changed())
    assert (settings.hop, settings.quantizers, settings.codebook_dim) == (tiny.HOP, 3, tiny.BOOK_DIM)
    assert settings.acoustic.upsampling_ratios == tiny.UP
    assert CodecSettings.from_dict(changed(codebook_dim=None)).codebook_dim == settings.latent


@pytest.mark.parametrize(
    ("bandwidths", "codes", "books"), [([0.5, 1, 1.5, 2], 1024, 8), ([4], 1024, 16), ([1], 1000, 4)]
)
def test_the_largest_bandwidth_says_how_many_codebooks_there_are(bandwidths, codes, books):
    assert CodecSettings.from_dict(changed(target_bandwidths=bandwidths, codebook_size=codes)).quantizers == books


def test_a_folder_without_a_config_in_this_layout_has_the_published_sizes(tmp_path: Path):
    assert CodecSettings.of(tmp_path) == PUBLISHED
    (tmp_path / "config.json").write_text(json.dumps({"ratios": [8, 5, 4, 2, 3]}))
    assert CodecSettings.of(tmp_path) == PUBLISHED
    (tmp_path / "config.json").write_text(json.dumps(changed()))
    assert CodecSettings.of(tmp_path).quantizers == 3


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (changed(semantic_model_config={"feat_extract_norm": "layer"}), "feat_extract_norm"),
        (changed(semantic_model_config={"conv_stride": [5]}), "convolution sizes"),
        (changed(strides=[2, 1]), "strides"),
        (changed(acoustic_model_config={"upsampling_ratios": [8, 5]}), "upsampling_ratios"),
        (changed(target_bandwidths=[0.01]), "bandwidths"),
        (changed(downsample_factor=5000), "semantic feature"),
        (changed(codebook_size="many"), "codebook_size"),
        ({"codebook_size": 4}, "acoustic_model_config"),
    ],
)
def test_a_codec_of_another_kind_is_a_clear_error(config, named):
    with pytest.raises(CheckpointError, match=named):
        CodecSettings.from_dict(config)


@pytest.mark.parametrize("whole", [1, 3, 40])
@pytest.mark.parametrize(("rest", "more", "padded"), [(0, 0, 0), (118, 0, 0), (119, 1, 1), (631, 1, 1), (632, 1, 0)])
def test_both_encoders_make_as_many_frames(whole, rest, more, padded):
    """Between these rests of a division by the hop, the acoustic encoder needs half a frame of zeros on both sides."""
    samples = whole * PUBLISHED.hop + rest
    frames = PUBLISHED.semantic_frames(samples, SEMANTIC_PADDING)
    assert frames == whole + more
    assert (PUBLISHED.acoustic_frames(samples) == frames) is (not padded)
    assert PUBLISHED.acoustic_frames(samples + 2 * 480 * padded) == frames
