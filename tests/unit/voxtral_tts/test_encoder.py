"""The encoder against the same network written out plainly. Upstream's own weights are too large to commit:
`tools/golden/voxtral_tts.py` compares with upstream where they are at hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.models.base import StageContext
from rhapsode.models.registry import find
from rhapsode.models.voxtral_tts import parts
from rhapsode.models.voxtral_tts.codec_net import CodecEncoder
from rhapsode.models.voxtral_tts.spec import SPEC
from tiny.voxtral_tts import Tiny, encoder_tensors, model_tensors, params, reference_audio, write

CODEC = params(Tiny())["multimodal"]["audio_tokenizer_args"]
HEADS, HEAD_DIM = CODEC["n_heads"], CODEC["head_dim"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> CodecEncoder:
    folder: Path = tmp_path_factory.mktemp("voxtral") / "full"
    write(folder, Tiny(encoder=True))
    return parts.encoder(StageContext(SPEC, folder, find(str(folder)).config, "cpu", "float32"))


def tensors() -> dict[str, Tensor]:
    made = dict(encoder_tensors(params(Tiny()), 0)) | dict(model_tensors(params(Tiny()), Tiny()))
    named = {name.removeprefix("audio_tokenizer."): torch.from_numpy(array) for name, array in made.items()}
    return {name: tensor.double() for name, tensor in fold_weight_norm(named).items()}


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def layer(x: Tensor, name: str, window: int, given: dict[str, Tensor]) -> Tensor:
    """One layer over `x [T, dim]`."""
    own = {key.removeprefix(f"{name}."): tensor for key, tensor in given.items() if key.startswith(f"{name}.")}
    normed = rms(x, own["attention_norm.weight"], 0.01)
    query, key, value = (normed @ own[f"attention.w{part}.weight"].T for part in "qkv")
    query, key = (rms(part, own[f"attention.{n}_norm.weight"], 1e-6) for part, n in ((query, "q"), (key, "k")))
    query, key, value = (part.view(-1, HEADS, HEAD_DIM).transpose(0, 1) for part in (query, key, value))
    place = torch.arange(len(x))
    age = place[:, None] - place
    slopes = torch.tensor([1.0, 2.0**-4, 1.0], dtype=x.dtype)  # three heads: two of a power, one of the next
    scores = query @ key.transpose(1, 2) * HEAD_DIM**-0.5 - slopes[:, None, None] * age
    scores = scores.masked_fill((age < 0) | (age > window), float("-inf"))
    attended = (scores.softmax(-1) @ value).transpose(0, 1).flatten(1) @ own["attention.wo.weight"].T
    x = x + own["attention_scale"] * attended
    normed = rms(x, own["ffn_norm.weight"], 0.01)
    gated = F.silu(normed @ own["feed_forward.w1.weight"].T) * (normed @ own["feed_forward.w3.weight"].T)
    return x + own["ffn_scale"] * (gated @ own["feed_forward.w2.weight"].T)


def conv(x: Tensor, weight: Tensor, stride: int, mode: str) -> Tensor:
    """A causal convolution of `x [T, inputs]`."""
    end = -len(x) % stride
    return F.conv1d(F.pad(x.T[None], (weight.shape[-1] - stride, end), mode), weight, stride=stride)[0].T


def plain(samples: np.ndarray) -> Tensor:
    given, patch = tensors(), CODEC["pretransform_patch_size"]
    x = torch.from_numpy(np.pad(samples, (0, -len(samples) % patch)).reshape(-1, patch)).double()
    x = conv(x, given["input_proj.conv.weight"], 1, "reflect")
    for i, (stride, window) in enumerate(zip((2, 2, 2, 1), (16, 8, 4, 2), strict=True)):
        x = layer(x, f"encoder_blocks.{2 * i}.layers.0", window, given)
        x = conv(x, given[f"encoder_blocks.{2 * i + 1}.conv.weight"], stride, "replicate")
    return x


@pytest.mark.parametrize("samples", [1000, 777, 41])
def test_codes_are_those_of_the_plain_network(encoder: CodecEncoder, samples: int) -> None:
    audio, given = reference_audio(samples), tensors()
    latents, found = plain(audio), encoder.encode(audio)
    assert len(found) == -(-samples // 40) + 1
    book = "quantizer.semantic_codebook"
    vectors = given[f"{book}.embedding_sum"] / given[f"{book}.cluster_usage"][:, None]
    semantic = torch.cdist(latents[:, :6], vectors).argmin(-1) + 2
    acoustic = ((latents[:, 6:].tanh() + 1) / 2 * 8).round() + 2
    assert found[:-1, 0].tolist() == semantic.tolist()
    assert found[:-1, 1:].tolist() == acoustic.tolist()
    assert found[-1].tolist() == [1, 0, 0, 0, 0, 0]


def test_codes_vary_with_the_sound(encoder: CodecEncoder) -> None:
    codes = encoder.encode(reference_audio(4000))
    assert len(np.unique(codes[:-1], axis=0)) > 50


@pytest.mark.parametrize("samples", [1, 12])
def test_a_recording_too_short_to_reflect_is_encoded(encoder: CodecEncoder, samples: int) -> None:
    assert encoder.encode(reference_audio(samples)).shape == (2, 6)


def test_what_is_decoded_from_codes_is_their_latents(encoder: CodecEncoder) -> None:
    codes = torch.randint(2, 11, (20, 6))
    latents = encoder.codebooks.decode(codes)
    semantic, acoustic = latents.split((6, 5), dim=-1)
    inside = acoustic.clamp(-0.999, 0.999)  # the first and the last level have no inverse of tanh
    assert torch.equal(encoder.codebooks.encode(torch.cat((semantic, inside.atanh()), dim=-1)), codes)
