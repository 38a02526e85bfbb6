"""What a checkpoint can do is known before it is loaded; a wrong tensor or setting is an error by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rhapsode.checkpoints import hub
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.registry import find
from rhapsode.models.voxtral_tts import parts
from rhapsode.models.voxtral_tts.config import read
from rhapsode.models.voxtral_tts.spec import SPEC
from tiny.voxtral_tts import VOICES, Tiny, hop, params, write
from unit.command import python
from unit.voxtral_tts.asked import Family


def test_what_a_checkpoint_can_do_is_known_without_torch(tiny_folder: Path, tmp_path: Path) -> None:
    info = find(str(tiny_folder)).info()
    assert (info.can.names(), info.voices, len(info.languages)) == (("presets",), tuple(VOICES), 9)
    assert info.frame_hz == 24_000 / hop(Tiny())
    write(tmp_path / "full", Tiny(encoder=True))
    assert find(str(tmp_path / "full")).info().can.names() == ("presets", "clone")
    code = f"import sys; from rhapsode.models.registry import find; print(find({str(tiny_folder)!r}).info().family)"
    assert python(f"{code}; print('torch' in sys.modules)", tmp_path).split() == ["voxtral-tts", "False"]


def test_it_is_known_by_its_architecture_too(tmp_path: Path) -> None:
    settings = params(Tiny()) | {"architectures": ["VoxtralTTSForConditionalGeneration"], "model_type": "other"}
    (tmp_path / "params.json").write_text(json.dumps(settings))
    assert find(str(tmp_path)).spec is SPEC


def test_a_checkpoint_on_the_hub_is_fetched_with_its_voices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "params.json").write_text(json.dumps(params(Tiny())))
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(hub, "fetch", lambda name, files, *_, **__: asked.append(files) or tmp_path)
    assert find("mistralai/Voxtral-4B-TTS-2603").spec is SPEC
    assert "params.json" in asked[0]
    assert {"voice_embedding/*.pt", "*.json", "*.safetensors"} <= set(asked[1])


def test_its_talker_captures_prefill_and_takes_no_text_while_it_speaks(tiny: Family) -> None:
    assert tiny.talker.traits().names() == ["kv", "prefill", "capture", "capture_ready"]


def test_the_number_of_steps_is_the_checkpoint_s(tmp_path: Path) -> None:
    assert read(params(Tiny(steps=None))).flow.n_decoding_steps == 7
    write(tmp_path, Tiny(steps=4))
    changes = Family.open(tmp_path).talker.net.acoustic_transformer.changes
    assert changes.tolist() == [0.25] * 4


def test_sizes_may_be_one_text(tmp_path: Path) -> None:
    settings = params(Tiny())
    audio = settings["multimodal"]["audio_model_args"]
    for key in ("semantic_codebook_size", "acoustic_codebook_size", "n_acoustic_codebook"):
        del audio[key]
    audio["codebook_sizes"] = "37,9,9,9,9,9"
    assert read(settings).codes.books == 6
    audio["codebook_sizes"] = "37,9,8"
    with pytest.raises(CheckpointError, match="same size"):
        read(settings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.pop("multimodal"), "'multimodal'"),
        (lambda p: p.pop("dim"), "'dim'"),
        (lambda p: p.update(use_biases=True), "biases"),
        (lambda p: p.update(dim=64), "backbone's 64"),
        (lambda p: p["multimodal"]["audio_model_args"].update(input_embedding_concat_type="concat"), "concat"),
        (lambda p: p["multimodal"]["audio_model_args"].update(n_acoustic_codebook=0), "codebooks"),
        (lambda p: p["multimodal"]["audio_model_args"].update(semantic_codebook_size=36), "other sizes"),
        (
            lambda p: p["multimodal"]["audio_model_args"]["acoustic_transformer_args"].update(n_decoding_steps=0),
            "n_decoding_steps",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(change: Callable[[dict[str, Any]], Any], words: str) -> None:
    settings = params(Tiny())
    change(settings)
    with pytest.raises(CheckpointError, match=words):
        read(settings)


def test_another_sample_rate_is_refused(tmp_path: Path) -> None:
    settings = params(Tiny())
    settings["multimodal"]["audio_tokenizer_args"]["sampling_rate"] = 44_100
    (tmp_path / "params.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match="44100"):
        find(str(tmp_path)).info()


TALKER, CODEC = "layers.1.attention.wq.weight", "audio_tokenizer.decoder_blocks.1.layers.0.attention.wo.weight"
BOOK = "audio_tokenizer.quantizer.semantic_codebook.cluster_usage"


@pytest.mark.parametrize("name", [TALKER, CODEC, BOOK, "acoustic_transformer.norm.weight"])
@pytest.mark.parametrize("kind", ["missing", "misshapen"])
def test_a_tensor_that_is_not_there_or_not_right_is_named(tmp_path: Path, name: str, kind: str) -> None:
    write(tmp_path, Tiny())
    tensors = load_file(tmp_path / "consolidated.safetensors")
    given = tensors.pop(name)
    if kind == "misshapen":
        tensors[name] = np.concatenate([given, given])
    save_file(tensors, tmp_path / "consolidated.safetensors")
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        Family.open(tmp_path)


@pytest.mark.parametrize("name", ["layers.2.ffn_norm.weight", "audio_tokenizer.unknown.weight"])
def test_a_tensor_that_nothing_uses_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, Tiny())
    save_file({name: np.ones(3, np.float32)}, tmp_path / "more.safetensors")
    with pytest.raises(CheckpointError, match=f"nothing here uses the tensor '{name}'"):
        Family.open(tmp_path)


def test_a_table_of_frequencies_that_is_recomputed_may_be_there(tmp_path: Path) -> None:
    write(tmp_path, Tiny())
    frequencies = {"acoustic_transformer.time_embedding.inv_freq": np.ones(16, np.float32)}
    save_file(frequencies, tmp_path / "more.safetensors")
    assert Family.open(tmp_path).talker.net is not None


def test_a_codec_that_is_missing_altogether_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, Tiny())
    tensors = load_file(tmp_path / "consolidated.safetensors")
    only = {name: tensor for name, tensor in tensors.items() if not name.startswith("audio_tokenizer.")}
    save_file(only, tmp_path / "consolidated.safetensors")
    with pytest.raises(CheckpointError, match="lacks the codec"):
        parts.decoder(StageContext(SPEC, tmp_path, find(str(tmp_path)).config, "cpu", "float32"))
