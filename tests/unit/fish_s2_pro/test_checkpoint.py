"""Checkpoints are read strictly: what is missing, too much or of the wrong size is an error that names it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rhapsode.errors import CheckpointError
from rhapsode.models.registry import find
from tiny.fish_s2_pro import SAMPLE_RATE, reference_audio
from unit.command import python
from unit.fish_s2_pro.asked import Family


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny, tmp_path / "copy")


def change_codec(folder: Path, change: Callable[[dict], None]) -> None:
    tensors = load_file(folder / "codec.safetensors")
    change(tensors)
    save_file(tensors, folder / "codec.safetensors")


def test_a_checkpoint_is_recognised_without_torch(tiny: Path, tmp_path: Path) -> None:
    code = f"import sys; from rhapsode.models.registry import find; i = find({str(tiny)!r}).info()"
    said = python(f"{code}; print(i.family, i.can.references, 'torch' in sys.modules)", tmp_path)
    assert said.split() == ["fish-s2-pro", "8", "False"]
    assert "licence" in find(str(tiny)).info().summary


def test_the_published_form_of_the_codec_file_is_read(copy: Path) -> None:
    """A pickle of tensors, wrapped, with a prefix, and with buffers of the training code."""
    usual = Family.open(copy)
    tensors = {f"generator.{name}": tensor for name, tensor in load_file(copy / "codec.safetensors").items()}
    for module in ("quantizer.pre_module", "quantizer.post_module", "encoder.block.2.block.5"):
        tensors[f"generator.{module}.freqs_cis"] = torch.zeros(16, 32, 2, dtype=torch.bfloat16)
        tensors[f"generator.{module}.causal_mask"] = torch.ones(16, 16, dtype=torch.bool)
    torch.save({"state_dict": tensors}, copy / "codec.pth")
    (copy / "codec.safetensors").unlink()
    codes = torch.arange(40).view(1, 10, 4) % 12
    with torch.inference_mode():
        other = Family.open(copy)
        assert torch.equal(other.codec._decoder(codes), usual.codec._decoder(codes))
    samples = reference_audio(300)
    assert np.array_equal(other.encode._encoder.encode(samples), usual.encode._encoder.encode(samples))


@pytest.mark.parametrize(
    "name",
    [
        "decoder.model.1.block.2.block.1.conv.bias",
        "quantizer.post_module.layers.0.attention.wo.weight",
        "encoder.block.0.conv.parametrizations.weight.original0",
        "quantizer.semantic_quantizer.quantizers.0.in_proj.weight_v",
        "quantizer.quantizer.quantizers.1.out_proj.bias",
    ],
)
def test_a_missing_tensor_of_the_codec_is_named(copy: Path, name: str) -> None:
    change_codec(copy, lambda tensors: tensors.pop(name))
    with pytest.raises(CheckpointError, match=name.rpartition(".")[0].replace(".parametrizations.weight", "")):
        Family.open(copy)


def test_an_unknown_tensor_of_the_codec_is_named(copy: Path) -> None:
    change_codec(copy, lambda tensors: tensors.update({"decoder.extra.weight": torch.zeros(2)}))
    with pytest.raises(CheckpointError, match=r"nothing here uses the tensor 'decoder\.extra\.weight'"):
        Family.open(copy)


def test_a_tensor_of_another_size_is_named(copy: Path) -> None:
    name = "quantizer.upsample.1.1.gamma"
    change_codec(copy, lambda tensors: tensors.update({name: torch.zeros(3)}))
    with pytest.raises(CheckpointError, match=rf"'{name}' is \[3\]"):
        Family.open(copy)


def test_a_missing_tensor_of_the_talker_has_the_checkpoints_name(copy: Path) -> None:
    index = json.loads((copy / "model.safetensors.index.json").read_text())
    name = "text_model.model.layers.1.attention.wqkv.weight"
    file = copy / index["weight_map"].pop(name)
    tensors = load_file(file)
    del tensors[name]
    save_file(tensors, file)
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=name):
        Family.open(copy)


def test_a_checkpoint_without_a_codec_says_so(copy: Path) -> None:
    (copy / "codec.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"codec\.pth"):
        Family.open(copy)


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        ("text_config", "tie_word_embeddings", False, "tie_word_embeddings"),
        ("text_config", "use_moe", True, "use_moe"),
        ("text_config", "dim", None, "'dim' is missing"),
        ("audio_decoder_config", "vocab_size", 41, "must agree"),
    ],
)
def test_a_config_that_this_family_cannot_run_is_refused(copy: Path, section, key, value, words: str) -> None:
    config = json.loads((copy / "config.json").read_text())
    config[section][key] = value
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=words):
        Family.open(copy)


def test_a_tokenizer_without_the_voice_token_is_refused(copy: Path) -> None:
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["content"] != "<|voice|>"]
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(CheckpointError, match="voice"):
        Family.open(copy)


def test_the_sample_rate_is_that_of_the_codec(tiny: Path) -> None:
    assert find(str(tiny)).info().sample_rate == SAMPLE_RATE
