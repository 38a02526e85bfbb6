"""Checkpoints are read strictly: what is missing, too much or of the wrong size is an error that names it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from rhapsode.bench.engine.subject import SHAPES
from rhapsode.checkpoints.uninitialised import Uninitialised
from rhapsode.errors import CheckpointError
from rhapsode.models.higgs import parts
from rhapsode.models.higgs.config import read_v2, read_v3
from rhapsode.models.higgs.net import HiggsNet
from rhapsode.models.higgs.vocode import CodecFiles
from rhapsode.models.registry import find
from tiny.higgs import LAYERS, Tiny, config, write
from unit.command import python
from unit.higgs.asked import context_of

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def copies(tiny_v2: Path, tiny_v3: Path, tmp_path: Path) -> dict[int, Path]:
    return {
        generation: shutil.copytree(folder, tmp_path / f"v{generation}")
        for generation, folder in ((2, tiny_v2), (3, tiny_v3))
    }


def change(folder: Path, how: Change) -> None:
    tensors = load_file(folder / "model.safetensors")
    how(tensors)
    save_file(tensors, folder / "model.safetensors")


def change_config(folder: Path, how: Change) -> None:
    read = json.loads((folder / "config.json").read_text())
    how(read)
    (folder / "config.json").write_text(json.dumps(read))


def talker(generation: int, folder: Path) -> Any:
    context = context_of(generation, folder)
    return parts.talker((read_v2 if generation == 2 else read_v3)(context.config), context)


def test_checkpoints_are_recognised_without_torch(tiny_v2: Path, tiny_v3: Path, tmp_path: Path) -> None:
    code = "import sys; from rhapsode.models.registry import find\n"
    code += f"for folder in ({str(tiny_v2)!r}, {str(tiny_v3)!r}):\n"
    code += "    info = find(folder).info(); print(info.family, *info.can.names())\n"
    said = python(f"{code}print('torch' in sys.modules)", tmp_path)
    assert said.splitlines() == [
        "higgs-v2 clone design instructions text_stream",
        "higgs-v3 clone text_stream",
        "False",
    ]
    assert "no commercial use" in find(str(tiny_v3)).info().summary


def test_both_layouts_of_v2_are_the_same_network(tmp_path: Path) -> None:
    today = talker(2, write(tmp_path / "today", Tiny(), shards=2))
    original = talker(2, write(tmp_path / "original", Tiny(original=True)))
    for name, tensor in today.state_dict().items():
        assert torch.equal(tensor, original.state_dict()[name]), name
    assert torch.equal(today.body.rope.inv_freq, original.body.rope.inv_freq)


def test_what_a_talker_does_not_need_may_be_there(copies: dict[int, Path]) -> None:
    def add(tensors: dict[str, Any]) -> None:
        if "audio_lm_head.weight" in tensors:
            tensors["text_lm_head.weight"] = np.zeros((3, 2), np.float32)
        else:
            tensors["tied.head.text_head.weight"] = np.zeros((3, 2), np.float32)
            tensors["tied.head.modality_heads.0.weight"] = np.zeros((3, 2), np.float32)  # tied: it is not read

    for generation, folder in copies.items():
        change(folder, add)
        names = talker(generation, folder).state_dict()
        assert not any("text_lm_head" in name or "text_head" in name or "modality_heads" in name for name in names)


def test_an_untied_head_of_v3_is_read(copies: dict[int, Path]) -> None:
    change_config(copies[3], lambda read: read["audio_encoder_config"].update(tie_word_embeddings=False))
    with pytest.raises(CheckpointError, match=r"tied\.head\.modality_heads\.0\.weight"):
        talker(3, copies[3])
    table = "tied.embedding.modality_embeddings.0.embedding.weight"
    change(copies[3], lambda tensors: tensors.update({"tied.head.modality_heads.0.weight": 2 * tensors[table]}))
    net = talker(3, copies[3])
    assert torch.equal(net.head.weight, 2 * net.code_table.weight)


@pytest.mark.parametrize(
    ("generation", "name"),
    [
        (2, "model.layers.1.audio_mlp.up_proj.weight"),
        (2, "model.layers.0.audio_post_attention_layernorm.weight"),
        (2, "audio_lm_head.weight"),
        (3, f"body.layers.{LAYERS - 1}.self_attn.q_norm.weight"),
        (3, "tied.embedding.text_embedding.weight"),
    ],
)
def test_a_missing_tensor_of_the_talker_is_named(copies: dict[int, Path], generation: int, name: str) -> None:
    change(copies[generation], lambda tensors: tensors.pop(name))
    with pytest.raises(CheckpointError, match=name):
        talker(generation, copies[generation])


@pytest.mark.parametrize("generation", [2, 3])
def test_an_unknown_or_misshapen_tensor_is_named(copies: dict[int, Path], generation: int) -> None:
    folder = copies[generation]
    change(folder, lambda tensors: tensors.update({"extra.weight": np.zeros(2, np.float32)}))
    with pytest.raises(CheckpointError, match=r"nothing here uses the tensor 'extra\.weight'"):
        talker(generation, folder)
    norm = "model.norm.weight" if generation == 2 else "body.norm.weight"
    change(folder, lambda tensors: (tensors.pop("extra.weight"), tensors.update({norm: np.zeros(3, np.float32)})))
    with pytest.raises(CheckpointError, match=rf"'{norm}' is \[3\]"):
        talker(generation, folder)


@pytest.mark.parametrize(
    ("generation", "how", "words"),
    [
        (2, lambda read: read.update(audio_stream_eos_id=9), "ids after the 16 codes"),
        (2, lambda read: read.update(codebook_size=16), "ids after the 14 codes"),
        (2, lambda read: read.update(num_codebooks=1), "two codebooks"),
        (2, lambda read: read.pop("hidden_size"), "'hidden_size' is missing"),
        (2, lambda read: read["rope_parameters"].update(rope_type="yarn"), "yarn"),
        (2, lambda read: read.update(hidden_act="gelu"), "SiLU"),
        (3, lambda read: read["audio_encoder_config"].update(encoder_type="whisper"), "discrete"),
        (3, lambda read: read.pop("text_config"), "'text_config' is missing"),
        (3, lambda read: read["audio_encoder_config"].update(use_delay_pattern=False), "delay pattern"),
    ],
)
def test_a_config_that_cannot_be_run_is_refused(
    copies: dict[int, Path], generation: int, how: Change, words: str
) -> None:
    change_config(copies[generation], how)
    with pytest.raises(CheckpointError, match=words):
        talker(generation, copies[generation])


@pytest.mark.parametrize("key", ["audio_dual_ffn_layers", "audio_adapter_type", "audio_embed_avg", "use_delay_pattern"])
def test_an_original_config_of_another_kind_is_refused(key: str) -> None:
    values = {"audio_dual_ffn_layers": [0], "audio_adapter_type": "stack", "audio_embed_avg": True}
    with pytest.raises(CheckpointError, match=r"config\.json"):
        read_v2(config(Tiny(original=True)) | {key: values.get(key, False)})


def test_a_missing_theta_is_that_of_the_language_model() -> None:
    assert read_v3(config(Tiny(generation=3))).theta == 1e6
    without = config(Tiny())
    del without["rope_parameters"]["rope_theta"]
    assert read_v2(without).theta == read_v2(config(Tiny(original=True))).theta == 5e5


def test_a_tokenizer_without_a_control_token_is_refused(copies: dict[int, Path]) -> None:
    from rhapsode.models.higgs.prepare import HiggsV2Prepare, HiggsV3Prepare

    for generation, prepare, name in ((2, HiggsV2Prepare, "<|audio_out_bos|>"), (3, HiggsV3Prepare, "<|tts|>")):
        path = copies[generation] / "tokenizer.json"
        path.write_text(path.read_text().replace(name, "<|other|>"))
        with pytest.raises(CheckpointError, match=name.strip("<|>")):
            prepare(context_of(generation, copies[generation]))


# --- the codec ---


def test_a_codec_of_another_size_is_refused(copies: dict[int, Path]) -> None:
    change_config(copies[2], lambda read: read.update(num_codebooks=4))
    context = context_of(2, copies[2])
    with pytest.raises(CheckpointError, match="3 codebooks of 16 codes, and the model 4 of 16"):
        CodecFiles.of(read_v2(context.config), context)


def test_v3_has_the_published_codec_where_no_file_says_otherwise(copies: dict[int, Path]) -> None:
    shutil.rmtree(copies[3] / "audio_tokenizer")
    change_config(copies[3], lambda read: read["audio_encoder_config"].update(num_codebooks=8, vocab_size=1026))
    context = context_of(3, copies[3])
    settings = CodecFiles.of(read_v3(context.config), context).settings
    assert (settings.hop, settings.quantizers, settings.codebook_size) == (960, 8, 1024)
    assert tuple(settings.context) == (10, 10)


# --- the shapes for measurements ---


@pytest.mark.parametrize(("generation", "read_by_a_step", "all_billions"), [(2, 2.85, 5.38), (3, 3.65, 4.04)])
def test_the_shapes_have_the_published_sizes(generation: int, read_by_a_step: float, all_billions: float) -> None:
    content = json.loads((SHAPES / f"higgs-v{generation}" / "config.json").read_text())
    read = (read_v2 if generation == 2 else read_v3)(content)
    with torch.device("meta"), Uninitialised():
        net = HiggsNet(read)
    sizes = {name: tensor.numel() for name, tensor in net.named_parameters()}
    cold = (".mlp.", "text_table") if generation == 2 else ("text_table",)
    table = {"code_table"} if generation == 2 else set()  # a step reads eight rows of it; v3's is the head, too
    step = sum(size for name, size in sizes.items() if not any(part in name for part in (*cold, *table)))
    assert step / 1e9 == pytest.approx(read_by_a_step, abs=0.02)
    assert sum(sizes.values()) / 1e9 == pytest.approx(all_billions, abs=0.02)
