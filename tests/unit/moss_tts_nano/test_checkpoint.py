"""Checkpoints are read strictly, by the names of their tensors; nothing in them is executed."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rhapsode.errors import CheckpointError
from rhapsode.models.moss_tts_nano import parts
from rhapsode.models.moss_tts_nano.codec import MossCodec
from rhapsode.models.moss_tts_nano.config import read
from rhapsode.models.moss_tts_nano.talker import MossTalker
from rhapsode.models.registry import find
from tiny.moss_tts_nano import CODEC, Tiny, write
from unit.moss_tts_nano.asked import CHECKPOINT, context_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, Tiny())
    return tmp_path


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def talker(folder: Path) -> MossTalker:
    return MossTalker(context_of(folder))


def rewrite(file: Path, change: Any) -> None:
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def test_it_is_recognised_by_its_config() -> None:
    assert find(str(CHECKPOINT)).spec.name == "moss-tts-nano"


def test_a_missing_tensor_is_named_as_the_checkpoint_names_it(folder: Path) -> None:
    rewrite(folder / "model.safetensors", lambda t: t.pop("transformer.h.1.attn.c_attn.bias"))
    with pytest.raises(CheckpointError, match=r"lacks the tensor 'transformer\.h\.1\.attn\.c_attn\.bias' \[96\]"):
        talker(folder)


def test_an_unused_tensor_is_named(folder: Path) -> None:
    rewrite(folder / "model.safetensors", lambda t: t.update(extra=torch.zeros(1)))
    with pytest.raises(CheckpointError, match="nothing here uses the tensor 'extra'"):
        talker(folder)


def test_a_misshapen_tensor_is_named(folder: Path) -> None:
    rewrite(folder / "model.safetensors", lambda t: t.update({"audio_embeddings.1.weight": torch.zeros(3, 32)}))
    with pytest.raises(CheckpointError, match=r"'audio_embeddings\.1\.weight' is \[3, 32\]"):
        talker(folder)


def test_tied_heads_may_be_stored_or_not(folder: Path) -> None:
    stored = {"text_lm_head.weight": torch.zeros(2, 2), "audio_lm_heads.0.weight": torch.zeros(2, 2)}
    rewrite(folder / "model.safetensors", lambda t: t.update(stored))
    assert float(talker(folder).net.end_head.abs().max()) > 0


def test_a_codec_tensor_is_named_too(folder: Path) -> None:
    file = folder / CODEC / "model.safetensors"
    rewrite(file, lambda t: t.pop("decoder.1.transformer.layers.0.layer_scale_2.scale"))
    with pytest.raises(CheckpointError, match=r"lacks the tensor 'decoder\.1\.transformer\.layers\.0\.layer_scale_2"):
        MossCodec(context_of(folder))


def test_older_names_of_codec_tensors_are_known(folder: Path) -> None:
    older = {".self_attn.in_proj.weight": ".self_attn.in_proj_weight", ".ffn.0.": ".linear1.", ".ffn.2.": ".linear2."}
    older |= {".self_attn.out_proj.": ".self_attn.out_projs.0.", "parametrizations.weight.original0": "weight_g"}
    older |= {"parametrizations.weight.original1": "weight_v"}
    expected = MossCodec(context_of(folder))._decoder.state_dict()

    def rename(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            new = name
            for now, before in older.items():
                new = new.replace(now, before)
            tensors[new] = tensors.pop(name)

    rewrite(folder / CODEC / "model.safetensors", rename)
    found = MossCodec(context_of(folder))._decoder.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_codec_may_lie_beside_the_checkpoint(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    parent = tmp_path_factory.mktemp("models")
    shutil.copytree(folder, parent / "talker")
    shutil.move(parent / "talker" / CODEC, parent / CODEC)
    assert context_of(parent / "talker").companion("codec") == parent / CODEC


def test_a_codec_that_does_not_fit_the_talker_is_refused(folder: Path) -> None:
    other = folder.parent / f"{folder.name}-other"
    write(other, Tiny(codes=19))
    shutil.rmtree(folder / CODEC)
    shutil.copytree(other / CODEC, folder / CODEC)
    with pytest.raises(CheckpointError, match="the codec has 3 codebooks of 19; the talker has 3 of 23"):
        MossCodec(context_of(folder))


def test_a_codec_with_another_rate_is_refused(folder: Path) -> None:
    change(folder / CODEC / "config.json", sampling_rate=24_000)
    with pytest.raises(CheckpointError, match="the codec has 24000 Hz and 2 channels"):
        MossCodec(context_of(folder))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"audio_codebook_sizes": [23, 23]}, "must be 3 equal sizes"),
        ({"audio_codebook_sizes": [23, 23, 22]}, "must be 3 equal sizes"),
        ({"audio_pad_token_id": 22}, "which is a code"),
        ({"model_architecture": "delay"}, "'delay', which is not supported"),
        ({"n_vq": "three"}, "'n_vq' of config.json must be a int"),
        ({"gpt2_config": None}, "'gpt2_config' is missing"),
    ],
)
def test_a_config_we_do_not_know_is_refused(folder: Path, values: dict, words: str) -> None:
    change(folder / "config.json", **values)
    with pytest.raises(CheckpointError, match=words):
        talker(folder)


def test_another_activation_is_refused(folder: Path) -> None:
    layers = json.loads((folder / "config.json").read_text())["gpt2_config"]
    change(folder / "config.json", gpt2_config=layers | {"activation_function": "relu"})
    with pytest.raises(CheckpointError, match="'activation_function' is 'relu'"):
        talker(folder)


def test_other_sizes_than_the_published_ones_run(tmp_path: Path) -> None:
    write(tmp_path, Tiny(layers=1, local_layers=2, hidden=24, heads=3, books=5, codes=11, pad=11))
    net = talker(tmp_path).net
    assert net.local_transformer.max_tokens == 6
    assert net.codes.shape == (5, 12, 24)


class Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (exec, ("raise SystemError('executed')",))


def test_a_pickle_with_code_in_it_is_refused_and_not_run(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"transformer.wte.weight": Evil()}, protocol=2))
    with pytest.raises(CheckpointError, match="not a file of plain tensors"):
        talker(folder)


def test_python_files_of_a_checkpoint_are_not_imported(folder: Path) -> None:
    (folder / "modeling_moss_tts_nano.py").write_text("raise SystemError('executed')")
    assert talker(folder).frame_shape == (3,)


def test_a_missing_or_broken_tokenizer_is_named(folder: Path) -> None:
    from rhapsode.models.moss_tts_nano.prepare import MossPrepare

    (folder / "tokenizer.model").write_bytes(b"\x0a\xff")
    with pytest.raises(CheckpointError, match=r"tokenizer\.model is not a SentencePiece model"):
        MossPrepare(context_of(folder))
    (folder / "tokenizer.model").unlink()
    with pytest.raises(CheckpointError, match=r"holds no tokenizer\.model"):
        MossPrepare(context_of(folder))


def test_windows_are_those_of_the_published_codec() -> None:
    from rhapsode.bench.engine.subject import SHAPES

    config = parts.read_codec(json.loads((SHAPES / "moss-tts-nano" / "codec" / "config.json").read_text()))
    assert [window for window in config.decoder_windows if window] == [500, 800, 1200, 1600]
    assert [window for window in config.encoder_windows if window] == [1600, 1200, 800, 500]
    assert read(json.loads((SHAPES / "moss-tts-nano" / "config.json").read_text())).codes == 1024
