"""Checkpoints: recognised by their YAML, read strictly, never executed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rhapsode.bench.engine.subject import subject
from rhapsode.checkpoints.folder import read_config
from rhapsode.checkpoints.tagged_yaml import resolved
from rhapsode.errors import CheckpointError, UnknownModel
from rhapsode.models.cosyvoice3.config import read
from rhapsode.models.cosyvoice3.flow.settings import FlowSettings
from rhapsode.models.cosyvoice3.tokenizer import CosyTokenizer
from rhapsode.models.cosyvoice3.vocoder.settings import hift_settings
from rhapsode.models.registry import find
from tiny.cosyvoice3 import CHUNK, CODES, EMBEDDING, MELS, RATE
from unit.cosyvoice3.asked import Family


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny, tmp_path / "copy")


def test_it_is_recognised_by_its_yaml(copy: Path) -> None:
    assert find(str(copy)).spec.name == "cosyvoice3"
    (copy / "cosyvoice3.yaml").unlink()
    with pytest.raises(UnknownModel):
        find(str(copy))


def test_sections_are_plain_data_with_references_resolved(tiny: Path) -> None:
    config = read(read_config(tiny, "cosyvoice3.yaml"), tiny)
    assert config.flow["decoder"]["estimator"]["static_chunk_size"] == CHUNK * RATE
    assert config.vocoder["sampling_rate"] == 24_000
    assert (config.codes, config.sos, config.task, config.fill) == (CODES, CODES, CODES + 2, CODES + 3)
    assert type(config.flow["decoder"]) is dict


@pytest.mark.parametrize("text", ["<b>", "<a> + 1", "<loop>", "a"])
def test_references_that_cannot_be_read_are_errors(text: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"a: 3\nloop: !ref <loop>\nvalue: !ref {text}\nproduct: !ref <a> * <a>\n")
    content = read_config(tmp_path, "c.yaml")
    assert resolved(content["product"], content) == 9
    with pytest.raises(CheckpointError, match="ref"):
        resolved(content["value"], content)


def test_the_weights_of_the_blank_model_are_not_served(copy: Path) -> None:
    (copy / "CosyVoice-BlankEN" / "model.safetensors").write_bytes(b"other weights")
    assert Family.open(copy).talker.net is not None


def test_the_deployment_chooses_the_language_model(tiny: Path, copy: Path) -> None:
    base, rl = (Family.open(tiny, llm=name).talker.net.table for name in ("base", "rl"))
    assert base.shape == rl.shape
    assert not torch.equal(base, rl)
    (copy / "llm.rl.pt").unlink()
    with pytest.raises(CheckpointError, match=r"llm\.rl\.pt.*llm: rl"):
        Family.open(copy, llm="rl")


def changed(file: Path, change: Callable[[dict], Any]) -> None:
    tensors = torch.load(file, weights_only=True)
    change(tensors)
    torch.save(tensors, file)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("speech_embedding.weight"), "lacks the tensor 'speech_embedding.weight'"),
        (lambda t: t.update({"llm_decoder.bias": torch.zeros(3)}), "nothing here uses the tensor 'llm_decoder.bias'"),
        (lambda t: t.update({"llm_decoder.weight": torch.zeros(3, 4)}), r"'llm_decoder.weight' is \[3, 4\]"),
        (lambda t: t.pop("llm.model.model.layers.1.self_attn.k_proj.bias"), "k_proj.bias"),
    ],
)
def test_tensors_are_read_strictly_by_name(copy: Path, change: Callable[[dict], Any], words: str) -> None:
    changed(copy / "llm.pt", change)
    with pytest.raises(CheckpointError, match=words):
        Family.open(copy)


class Malicious:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize("file", ["llm.pt", "spk2info.pt"])
def test_no_code_of_a_pickle_is_executed(copy: Path, file: str, capsys: pytest.CaptureFixture) -> None:
    torch.save({"x": Malicious()}, copy / file)
    with pytest.raises(CheckpointError, match="plain tensors"):
        Family.open(copy)
    assert "executed" not in capsys.readouterr().out


def speakers(content: Any) -> Callable[[Path], None]:
    return lambda folder: torch.save(content, folder / "spk2info.pt")


STORED = {
    "prompt_text": torch.zeros(1, 2), "llm_prompt_speech_token": torch.zeros(1, 2),
    "flow_prompt_speech_token": torch.zeros(1, 2), "prompt_speech_feat": torch.zeros(1, 4, MELS),
    "flow_embedding": torch.zeros(1, EMBEDDING),
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1], "speakers by name"),
        ({"a": {"embedding": torch.zeros(1, 5)}}, f"{EMBEDDING} finite numbers"),
        ({"a": {"embedding": 3}}, "must be a tensor"),
        ({"a": {"prompt_text": torch.zeros(1, 2)}}, "lacks 'llm_prompt_speech_token'"),
        ({"a": {**STORED, "prompt_speech_feat": torch.zeros(1, 3, MELS)}}, "2 tokens and a mel"),
        ({"a": {**STORED, "flow_prompt_speech_token": torch.full((1, 2), CODES)}}, f"past {CODES - 1}"),
    ],
)
def test_a_broken_speaker_is_an_error_by_name(copy: Path, content: Any, words: str) -> None:
    speakers(content)(copy)
    with pytest.raises(CheckpointError, match=words):
        find(str(copy)).info()


def test_a_checkpoint_without_speakers_needs_a_voice(copy: Path) -> None:
    (copy / "spk2info.pt").unlink()
    info = find(str(copy)).info()
    assert not info.can.presets
    assert info.voices == ()


def test_a_language_model_of_another_width_is_an_error(copy: Path) -> None:
    file = copy / "CosyVoice-BlankEN" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "hidden_size": 48}))
    with pytest.raises(CheckpointError, match="they must agree"):
        find(str(copy)).info()


def test_the_shape_for_measurements_has_the_published_sizes() -> None:
    with subject(None, "cosyvoice3") as shape:
        folder = shape.model.checkpoint
        assert folder is not None
        config = read(shape.model.config, folder)
        tokenizer = CosyTokenizer(folder, config.layers.vocab_size)
    assert shape.spec.name == "cosyvoice3"
    assert len(tokenizer("four")) == 4  # a token a byte
    assert (config.layers.num_hidden_layers, config.layers.hidden_size, config.speech_rows) == (24, 896, 6761)
    flow, vocoder = FlowSettings.of(config.flow), hift_settings(config.vocoder)
    assert (flow.dit.depth, flow.transformer.inner, flow.chunk_tokens, flow.spk_embed_dim) == (22, 1024, 25, 192)
    assert (vocoder.base_channels, vocoder.hop) == (512, 480)
