"""Published configurations are recognised and read, with the values that sound depends on."""

import json

import pytest

from rhapsode.bench.engine.subject import SHAPES
from rhapsode.checkpoints.audit import auditing
from rhapsode.models.moss_tts_nano import config as moss
from rhapsode.models.moss_tts_nano.spec import SPEC as MOSS
from rhapsode.models.moss_tts_nano.spec import MossOptions
from rhapsode.models.moss_tts_nano.talker import MossTalker
from rhapsode.models.qwen3_tts import config as qwen
from rhapsode.models.qwen3_tts.decoder import CodecDecoderConfig
from rhapsode.models.qwen3_tts.encoder import CodecEncoderConfig
from rhapsode.models.registry import find
from rhapsode.models.voxcpm2 import config as vox
from rhapsode.models.voxtral_tts import config as voxtral
from unit.real.published import FACTS, facts


@pytest.mark.parametrize(
    ("folder", "family", "variant", "voices", "languages"),
    [
        ("qwen3_tts", "qwen3-tts", "CustomVoice", 9, 10),
        ("voxcpm2", "voxcpm2", "", 0, 30),
        ("voxtral_tts", "voxtral-tts", "", 20, 9),
    ],
)
def test_a_published_checkpoint_is_recognised(
    folder: str, family: str, variant: str, voices: int, languages: int
) -> None:
    found = find(str(FACTS / folder))
    info = found.info()
    assert (found.spec.name, info.variant, len(info.voices), len(info.languages)) == (
        family,
        variant,
        voices,
        languages,
    )


def test_qwen() -> None:
    config, codec = facts("qwen3_tts/config.json"), facts("qwen3_tts/speech_tokenizer/config.json")
    read, added = qwen.read(config, None), facts("qwen3_tts/added_tokens.json")
    named = {"<|im_start|>": "im_start", "<|im_end|>": "im_end", "<tts_pad>": "tts_pad"}
    named |= {"<tts_text_bos>": "tts_bos", "<tts_text_eod>": "tts_eos"}
    assert {token: getattr(read.text, f"{name}_token_id") for token, name in named.items()} == {
        token: added[token] for token in named
    }
    decoder = CodecDecoderConfig.from_dict(codec["decoder_config"])
    assert read.groups == decoder.num_quantizers == CodecEncoderConfig.from_dict(codec).books == 16
    assert decoder.hop == codec["decode_upsample_rate"] == 1920
    assert decoder.sliding_window == 72


def test_the_encoder_of_qwen_has_no_window() -> None:
    """The published results come from an encoder that attends to everything, whatever the configuration says."""
    with auditing() as audit:
        CodecEncoderConfig.from_dict(facts("qwen3_tts/speech_tokenizer/config.json"))
    (unread,) = audit.unknown_keys().values()
    assert "sliding_window" in unread


def test_voxcpm2() -> None:
    config = facts("voxcpm2/config.json")
    read, vae = vox.read(config), vox.VaeConfig.from_dict(config["audio_vae_config"])
    rope = read.lm.layers().rope
    assert rope is not None
    assert (rope.factors[0], rope.factors[-1], len(rope.factors), rope.scale) == (
        0.9977997200264581,
        31.02392307921529,
        64,
        1.0,
    )
    assert (vae.encoder_hop, vae.hop, vae.out_sample_rate) == (640, 1920, 48_000)


def test_voxtral() -> None:
    read = voxtral.read(facts("voxtral_tts/params.json"))
    assert (read.codes.books, read.codes.semantic_rows, read.codes.acoustic_rows) == (37, 8194, 23)
    assert (read.codec.hop, read.codec.latent_dim) == (1920, 292)
    assert [block.window for block in read.codec.decoder_blocks()] == [2, 4, 8, 16]


def test_moss_has_the_published_values() -> None:
    """The published sample is not in the layout of a checkpoint: its values are those of our bench shape."""
    sample = facts("moss_tts_nano/config.json")
    read = moss.read(json.loads((SHAPES / "moss-tts-nano" / "config.json").read_text("utf-8")))
    layers, tokens = read.layers, read.tokens
    ids = [name for name in sample if name.endswith("_token_id") and name != "pad_token_id"]
    assert len(ids) == 7
    assert {name: getattr(tokens, name) for name in ids} == {name: sample[name] for name in ids}
    sizes = (read.books, read.codes, layers.n_embd, layers.n_layer, layers.n_head, layers.vocab_size)
    named = ("n_vq", "audio_codebook_size", "hidden_size", "num_layers", "num_heads", "vocab_size")
    assert sizes == tuple(sample[name] for name in named)
    assert (MOSS.sample_rate, MOSS.channels) == (48_000, 2)
    assert MOSS.sample_rate / MOSS.frame_hz == sample["audio_tokenizer_downsample_rate"]
    told, frame, ending = sample["sampling_defaults"], MossTalker.defaults, MossOptions()
    assert {
        "text_temperature": ending.text_temperature,
        "text_top_p": ending.text_top_p,
        "text_top_k": ending.text_top_k,
        "audio_temperature": frame.temperature,
        "audio_top_p": frame.top_p,
        "audio_top_k": frame.top_k,
        "audio_repetition_penalty": frame.repetition_penalty,
    } == told
