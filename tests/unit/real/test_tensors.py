"""Networks built from published configurations want exactly the published tensors: names and shapes, no values.

`checkpoints.load` raises for a tensor that is missing, that has another shape, or that nothing uses. Of Qwen3-TTS and
VoxCPM2 the lists are of our own networks: those tests notice a change, and prove nothing about the published files.
"""

import json
from math import prod
from typing import Any

import pytest

from rhapsode.bench.engine.subject import SHAPES
from rhapsode.checkpoints import load
from rhapsode.checkpoints.audit import auditing
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.errors import CheckpointError
from rhapsode.models.base import ModelSpec, StageContext
from rhapsode.models.higgs import config as higgs_config
from rhapsode.models.higgs import parts as higgs
from rhapsode.models.higgs.codec import parts as higgs_codec
from rhapsode.models.higgs.codec.names import V3_PREFIX
from rhapsode.models.higgs.codec.settings import CodecSettings
from rhapsode.models.higgs.spec import V3
from rhapsode.models.qwen3_tts import config as qwen_config
from rhapsode.models.qwen3_tts import parts as qwen
from rhapsode.models.qwen3_tts.spec import SPEC as QWEN
from rhapsode.models.voxcpm2 import config as vox_config
from rhapsode.models.voxcpm2 import parts as vox
from rhapsode.models.voxcpm2.spec import SPEC as VOX
from rhapsode.models.voxtral_tts import config as voxtral_config
from rhapsode.models.voxtral_tts import parts as voxtral
from rhapsode.models.voxtral_tts.spec import SPEC as VOXTRAL
from unit.real.published import WEIGHTS, PublishedTensors, facts

HIGGS_DROPPED = {
    "decoder_semantic.": 14,  # predicts semantic features: only for training
    "fc1.": 2,  # the layer before it
    ".codebook.inited": 8,  # statistics of training
    ".codebook.cluster_size": 8,
    ".codebook.embed_avg": 8,
}
"""By a part of their names, how many tensors of Higgs v3's codec no network reads."""


@pytest.fixture(autouse=True)
def _on_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads to the meta device, where buffers have no values."""
    monkeypatch.setattr(load, "move_buffers", lambda *_: None)


def context(spec: ModelSpec, config: dict[str, Any]) -> StageContext:
    return StageContext(spec, WEIGHTS, config, "meta", "bfloat16")


def size_gb(shapes: dict[str, list[int]]) -> float:
    """The size in gigabytes, with two bytes per number."""
    return sum(2 * prod(shape) for shape in shapes.values()) / 1e9


def test_voxtral(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor is read by the talker or the decoder: the file has no encoder."""
    config, shapes = facts("voxtral_tts/params.json"), voxtral_shapes()
    tensors = PublishedTensors(shapes)
    monkeypatch.setattr(voxtral, "Weights", lambda folder, every: tensors)
    with auditing() as audit:
        voxtral.talker(voxtral_config.read(config), context(VOXTRAL, config))
        voxtral.decoder(context(VOXTRAL, config))
    assert len(shapes) == 386
    assert size_gb(shapes) == pytest.approx(8.005, abs=0.0005)
    assert audit.tensors_read[str(WEIGHTS)] == set(fold_weight_norm({name: tensors.read(name) for name in shapes}))


def test_the_encoder_of_voxtral_is_not_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voxtral, "Weights", lambda folder, every: PublishedTensors(voxtral_shapes()))
    with pytest.raises(CheckpointError, match=r"lacks the tensor 'audio_tokenizer\.input_proj"):
        voxtral.encoder(context(VOXTRAL, facts("voxtral_tts/params.json")))


@pytest.mark.parametrize("more", [(), ("semantic_model.masked_spec_embed",)])
def test_higgs_v3(monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]) -> None:
    """Only names are known; with one that only training needs they are as many as the published file has."""
    config = json.loads((SHAPES / "higgs-v3" / "config.json").read_text("utf-8"))
    names = {*facts("higgs_v3/tensors.json.gz"), *(f"{V3_PREFIX}{name}" for name in more)}
    tensors = PublishedTensors(dict.fromkeys(names))
    monkeypatch.setattr(higgs, "open_weights", lambda folder: tensors)
    with auditing() as audit:
        higgs.talker(higgs_config.read_v3(config), context(V3, config))
        for half in (higgs_codec.decoder, higgs_codec.encoder):
            half(CodecSettings(), context(V3, config), lambda: tensors, V3_PREFIX)
    dropped = names - audit.tensors_read[str(WEIGHTS)]
    assert len(names) == 926 + len(more)
    assert {part: sum(part in name for name in dropped) for part in HIGGS_DROPPED} == HIGGS_DROPPED
    assert len(dropped) == sum(HIGGS_DROPPED.values()) + len(more)


def test_qwen_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A regression test over our own list. The talker's size is that of the published 1.7B CustomVoice file."""
    config, codec = facts("qwen3_tts/config.json"), facts("qwen3_tts/speech_tokenizer/config.json")
    shapes = facts("qwen3_tts/our_tensors.json.gz")
    speaks = {**config, "speaker_encoder_config": {"enc_dim": 2048}}
    monkeypatch.setattr(load, "Weights", lambda folder: PublishedTensors(shapes))
    monkeypatch.setattr(qwen, "read_config", lambda folder: codec)
    with auditing() as audit:
        qwen.talker(qwen_config.read(config, None), context(QWEN, config))
        qwen.decoder(context(QWEN, config))
        qwen.embedder(context(QWEN, speaks))
    assert audit.tensors_read[str(WEIGHTS)] == set(shapes)
    talker = {name: shape for name, shape in shapes.items() if name.startswith("talker.")}
    assert size_gb(talker) == pytest.approx(3.833, abs=0.0005)


def test_voxcpm2_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A regression test over our own list. The published file has 577 tensors, too."""
    config, shapes = facts("voxcpm2/config.json"), facts("voxcpm2/our_tensors.json.gz")
    monkeypatch.setattr(vox, "Weights", lambda folder: PublishedTensors(shapes))
    with auditing() as audit:
        vox.talker(vox_config.read(config), context(VOX, config))
    assert audit.tensors_read[str(WEIGHTS)] == set(shapes)
    assert len(shapes) == 577


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm.weight": None}, r"lacks the tensor 'norm\.weight'"),
        ({"norm.weight": [3073]}, r"'norm\.weight' is \[3073\], the config asks for \[3072\]"),
        ({"norm.bias": [3072]}, r"nothing here uses the tensor 'norm\.bias'"),
    ],
)
def test_a_tensor_more_or_less_or_of_another_shape_is_noticed(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, list[int] | None], message: str
) -> None:
    changed = {name: shape for name, shape in {**voxtral_shapes(), **change}.items() if shape is not None}
    monkeypatch.setattr(voxtral, "Weights", lambda folder, every: PublishedTensors(changed))
    config = facts("voxtral_tts/params.json")
    with pytest.raises(CheckpointError, match=message):
        voxtral.talker(voxtral_config.read(config), context(VOXTRAL, config))


def voxtral_shapes() -> dict[str, list[int]]:
    return {name: shape for name, (shape, _) in facts("voxtral_tts/tensors.json.gz").items()}
