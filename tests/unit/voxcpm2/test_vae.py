"""The VAE is upstream's, and a stream of patches is exactly the whole, however it is cut."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.voxcpm2 import parts
from rhapsode.models.voxcpm2.spec import SPEC
from rhapsode.models.voxcpm2.vae import VaeConfig, VaeDecoder
from tiny import weights
from tiny.voxcpm2 import ENCODER_RATES, FEAT, HOP, PATCH, Tiny, config, reference_audio, vae_tensors
from unit.voxcpm2.asked import INDEX, golden

EVERY = INDEX["every"]
Checkpoint = Callable[[str], Path]


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def context(folder: Path, dtype: str = "float32", random_weights: bool = False) -> StageContext:
    return StageContext(SPEC, folder, config(Tiny()), "cpu", dtype, random_weights=random_weights)


def latents(patches: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """As upstream was given them: [1, n, feat]."""
    return torch.from_numpy(weights.spread("latents", (1, FEAT, patches * PATCH), 1.0, 0)).transpose(1, 2).to(dtype)


def streamed(net: VaeDecoder, given: torch.Tensor, sizes: list[int], slot: int = 1) -> torch.Tensor:
    state, slots, pieces, at = net.state(3), torch.tensor([slot]), [], 0
    for size in sizes:
        pieces.append(net(given[:, at : at + size * PATCH], slots, state))
        at += size * PATCH
    return torch.cat(pieces, dim=-1)


def test_one_pass_is_upstreams(checkpoint: Checkpoint) -> None:
    wanted = golden("vae")
    wide = parts.decoder(context(checkpoint("zero_shot"), "float64"))(latents(6))[0, 0, ::EVERY]
    narrow = parts.decoder(context(checkpoint("zero_shot")))(latents(6, torch.float32))[0, 0, ::EVERY]
    assert np.abs(wide.numpy() - wanted["decoded_64"]).max() < 1e-10
    assert np.abs(narrow.numpy() - wanted["decoded_32"]).max() < 1e-4
    assert wanted["decoded_64"].std() > 0.1


@pytest.mark.parametrize("sizes", [[1] * 12, [12], [1, 2, 4, 5], [5, 1, 6], [11, 1]])
def test_a_stream_is_the_whole_to_rounding(checkpoint: Checkpoint, sizes: list[int]) -> None:
    net = parts.decoder(context(checkpoint("zero_shot"), "float64"))
    given = torch.cat((latents(6), latents(6).flip(1)), dim=1)
    found = streamed(net, given, sizes)
    assert found.shape[-1] == 12 * HOP
    assert float((found - net(given)).abs().max()) < 1e-8


def test_slots_keep_to_themselves(checkpoint: Checkpoint) -> None:
    net = parts.decoder(context(checkpoint("zero_shot"), "float64"))
    one, other = latents(6), latents(6).flip(1)
    state, together = net.state(3), []
    for at in range(0, 6 * PATCH, PATCH):
        both = torch.cat((one[:, at : at + PATCH], other[:, at : at + PATCH]))
        together.append(net(both, torch.tensor([2, 0]), state))
    joined = torch.cat(together, dim=-1)
    assert float((joined - net(torch.cat((one, other)))).abs().max()) < 1e-8
    state.clear(torch.tensor([2]))
    again = net(one[:, :PATCH], torch.tensor([2]), state)
    assert float((again - joined[:1, :, :HOP]).abs().max()) < 1e-8


@pytest.mark.parametrize("samples", [2_560, 20_480])
def test_references_become_upstreams_latents(checkpoint: Checkpoint, samples: int) -> None:
    encoder = parts.encoder(context(checkpoint("zero_shot")))
    found = encoder.encode(reference_audio(samples))
    assert found.shape == (samples // int(np.prod(ENCODER_RATES)), FEAT)
    assert np.abs(found - golden("vae")[f"latents_{samples}"]).max() < 1e-4


def test_a_pickled_vae_is_the_same_vae(checkpoint: Checkpoint, tmp_path: Path) -> None:
    tensors = {name: torch.from_numpy(tensor.copy()) for name, tensor in vae_tensors(Tiny())}
    torch.save({"state_dict": tensors}, tmp_path / "audiovae.pth")
    given = latents(2, torch.float32)
    found = parts.decoder(context(tmp_path))(given)
    assert torch.equal(found, parts.decoder(context(checkpoint("zero_shot")))(given))


def test_a_pickle_of_something_else_is_refused(tmp_path: Path) -> None:
    torch.save({"state_dict": {"encoder": Path("evil")}}, tmp_path / "audiovae.pth")
    with pytest.raises(CheckpointError, match="plain tensors"):
        parts.decoder(context(tmp_path))
    (tmp_path / "audiovae.pth").unlink()
    with pytest.raises(CheckpointError, match=r"audiovae\.safetensors nor audiovae\.pth"):
        parts.decoder(context(tmp_path))


def test_random_weights_sound(tmp_path: Path) -> None:
    found = parts.decoder(context(tmp_path, random_weights=True))(latents(2, torch.float32))
    assert bool(found.isfinite().all())
    assert float(found.std()) > 1e-3


def test_an_unknown_kind_of_vae_is_refused() -> None:
    for settings in ({"use_noise_block": True}, {"cond_type": "add"}, {"cond_out_layer": True}):
        with pytest.raises(CheckpointError, match="noise blocks"):
            VaeConfig.from_dict(settings)


def test_without_boundaries_the_kind_of_condition_does_not_matter() -> None:
    config = VaeConfig.from_dict({"decoder_dim": 64, "sr_bin_boundaries": None, "cond_type": "add"})
    assert not any("condition" in name for name, _ in VaeDecoder(config).named_parameters())
    usual = VaeDecoder(VaeConfig.from_dict({"decoder_dim": 64}))
    assert any("condition" in name for name, _ in usual.named_parameters())
