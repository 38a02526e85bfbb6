"""Tensors are read by name: all that are needed, none that are unknown, from each layout that was published."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rhapsode.checkpoints.weights import Tensors
from rhapsode.errors import CheckpointError
from rhapsode.models.higgs.codec import parts
from rhapsode.models.higgs.codec.names import V3_PREFIX
from rhapsode.models.higgs.codec.original import open_codec, renamed
from rhapsode.models.higgs.codec.reference import ReferenceEncoder
from rhapsode.models.higgs.codec.worker import HiggsCodec
from tiny import higgs_codec as tiny
from unit.higgs_codec.asked import codec, context, encoder, golden, held, settings, streamed, tensors

CODES = torch.from_numpy(tiny.frames(13))
UNIT = ("snake1", "conv1", "snake2", "conv2")


def both(source: Tensors, prefix: str = "") -> tuple[torch.Tensor, np.ndarray]:
    """What the two halves make of this file."""
    worker = HiggsCodec(parts.decoder(settings(), context(), lambda: source, prefix))
    references = ReferenceEncoder(parts.encoder(settings(), context(), lambda: source, prefix))
    return streamed(worker, CODES, [1]), references.encode([tiny.recording(4000)])[0]


def expected() -> tuple[torch.Tensor, np.ndarray]:
    return streamed(codec(), CODES, [1]), ReferenceEncoder(encoder()).encode([tiny.recording(4000)])[0]


def assert_same(source: Tensors, prefix: str = "", near: float = 0.0) -> None:
    (waveform, codes), (expected_waveform, expected_codes) = both(source, prefix), expected()
    assert (waveform - expected_waveform).abs().max() <= near
    assert np.array_equal(codes, expected_codes)


def test_the_checkpoint_that_the_goldens_were_made_with(tmp_path: Path):
    assert tiny.write(tmp_path) == str(golden()["fingerprint"])
    assert_same(open_codec(tmp_path))


def test_inside_a_checkpoint_of_v3():
    made = {f"{V3_PREFIX}{name}": tensor for name, tensor in tensors().items()} | {"body.norm.weight": torch.ones(3)}
    assert_same(held(made), V3_PREFIX)


def test_the_older_names_of_weight_norm():
    names = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    made = dict(tensors())
    for name in [name for name in made if "original" in name]:
        path, _, leaf = name.partition("parametrizations")
        made[path + names["parametrizations" + leaf]] = made.pop(name)
    assert_same(held(made))


def original(name: str) -> str:
    """What the original layout calls a tensor."""
    path = name.split(".")
    if path[0] in ("acoustic_encoder", "acoustic_decoder"):
        encodes = path[0] == "acoustic_encoder"
        names = ["res_unit1", "res_unit2", "res_unit3", "snake1", "conv1"]
        names = names if encodes else ["snake1", "conv_t1", *names[:3]]
        begin = "encoder.block" if encodes else "decoder_2.model"
        if path[1] != "block":
            index = {"conv1": 0, "snake1": 6, "conv2": 7}[path[1]]
            return f"{begin}.{index}.{path[2]}"
        unit = [f"block.{UNIT.index(path[4])}"] if path[3].startswith("res_unit") else []
        return ".".join([begin, str(int(path[2]) + 1), "block", str(names.index(path[3])), *unit, path[-1]])
    if "semantic" in path[0] and path[0] != "semantic_model":
        return ".".join([*path[:-1], "conv", path[-1]])
    for ours, theirs in (
        ("quantizer.quantizers", "quantizer.vq.layers"), (".codebook.", "._codebook."),
        ("fc.", "fc_prior."), ("fc1.", "fc_post1."), ("fc2.", "fc_post2."),
    ):  # fmt: skip
        if name.startswith(ours) or (ours.startswith(".") and ours in name):
            name = name.replace(ours, theirs)
    return name


def original_tensors() -> dict[str, torch.Tensor]:
    """All tensors in the original layout: convolutions of encoder and decoder under weight norm."""
    made: dict[str, torch.Tensor] = {"fc1.weight": torch.zeros(2), "fc1.bias": torch.zeros(2)}
    for name, tensor in tensors().items():
        path = original(name)
        if name.startswith("acoustic") and path.endswith(".weight"):
            norm = tensor.norm(dim=(1, 2), keepdim=True)
            made |= {f"{path[:-7]}.weight_g": norm, f"{path[:-7]}.weight_v": tensor * 3}
        else:
            made[path] = tensor
    return made


def test_the_original_layout(tmp_path: Path):
    made = original_tensors()
    assert {"decoder_2.model.1.block.2.block.3.weight_v", "quantizer.vq.layers.0._codebook.embed"} <= made.keys()
    torch.save(made, tmp_path / "model.pth")
    assert_same(open_codec(tmp_path), near=1e-5)


def test_another_models_weights_beside_the_codec_are_not_taken_for_it(tmp_path: Path):
    torch.save(original_tensors(), tmp_path / "model.pth")
    save_file({"model.embed_tokens.weight": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    assert "fc2.weight" in open_codec(tmp_path)
    save_file(dict(tensors()), tmp_path / "model.safetensors")
    assert open_codec(tmp_path).file_of("fc2.weight").name == "model.safetensors"


@pytest.mark.parametrize(
    "name", ["encoder.block.1.block.9.weight", "decoder_2.model.1.block.x", "encoder.block.2.block"]
)
def test_a_layer_that_does_not_exist_keeps_its_name(name):
    assert renamed({name: torch.ones(1)}).keys() == {name}


@pytest.mark.parametrize(
    ("half", "name"),
    [
        (parts.decoder, "acoustic_decoder.block.2.res_unit3.snake2.alpha"),
        (parts.decoder, "quantizer.quantizers.1.project_out.bias"),
        (parts.encoder, "semantic_model.encoder.pos_conv_embed.conv.parametrizations.weight.original0"),
        (parts.encoder, "encoder_semantic.conv_blocks.1.res_units.0.conv1.weight"),
    ],
)
def test_a_tensor_that_is_missing_misshapen_or_unknown_is_named(half, name):
    without = {key: tensor for key, tensor in tensors().items() if key != name}
    for made in (without, without | {name: torch.zeros(5, 5)}):
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
            half(settings(), context(), lambda made=made: held(made))
    with pytest.raises(CheckpointError, match=r"quantizer\.extra"):
        half(settings(), context(), lambda: held(tensors() | {"quantizer.extra": torch.zeros(1)}))


def test_what_only_training_needs_may_be_missing():
    unused = ("decoder_semantic", "fc1", "cluster_size", "embed_avg", "inited", "masked_spec_embed")
    assert_same(held({name: t for name, t in tensors().items() if not any(part in name for part in unused)}))


def test_random_weights_open_no_file():
    def nothing() -> Tensors:
        raise AssertionError

    random = context(random_weights=True)
    worker = HiggsCodec(parts.decoder(settings(), random, nothing))
    assert streamed(worker, CODES, [2]).isfinite().all()
    codes = ReferenceEncoder(parts.encoder(settings(), random, nothing)).encode([tiny.recording(3000)])[0]
    assert codes.shape == (4, 3)
