"""The tiny codec, ours and a plain one-pass decoder, and streams as the engine gives them."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.device.reach import Window
from rhapsode.device.slots import Rows, SlotTable
from rhapsode.models.base import StageContext
from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.higgs.codec import parts
from rhapsode.models.higgs.codec.decoder import HiggsDecoderState
from rhapsode.models.higgs.codec.encoder import HiggsEncoder
from rhapsode.models.higgs.codec.settings import CodecSettings
from rhapsode.models.higgs.codec.worker import HiggsCodec
from tiny import higgs_codec as tiny

GOLDEN = Path(__file__).parents[2] / "golden" / "higgs" / "codec.npz"
SLOTS = 4


def context(dtype: str = "float32", **others: object) -> StageContext:
    return StageContext(SPEC, None, {}, "cpu", dtype, **others)


@cache
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN).items())


@cache
def tensors() -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in tiny.tensors(tiny.TinyCodec()).items()}


def held(named: dict[str, torch.Tensor]) -> TensorsInMemory:
    return TensorsInMemory(Path("codec") / "model.safetensors", named)


def settings() -> CodecSettings:
    return CodecSettings.from_dict(tiny.config(tiny.TinyCodec()))


@cache
def codec(dtype: str = "float32") -> HiggsCodec:
    return HiggsCodec(parts.decoder(settings(), context(dtype), lambda: held(tensors())))


@cache
def encoder(dtype: str = "float32") -> HiggsEncoder:
    return parts.encoder(settings(), context(dtype), lambda: held(tensors()))


def rows(*slots: int) -> Rows:
    return Rows(torch.tensor(slots), SlotTable(SLOTS, 1, torch.device("cpu")))


def window(worker: HiggsCodec, codes: torch.Tensor, at: int, due: int, length: int | None = None) -> Window:
    """The window of frames `[at, at + due)` of a stream that ends after `length` frames, as the engine gives it."""
    ahead = worker.reach.lookahead
    index = torch.arange(at + (ahead if at else 0), at + due + ahead)
    present = index < (len(codes) if length is None else length)
    return Window(codes[index.clamp(max=len(codes) - 1)][None], due, worker.reach, present[None])


@torch.inference_mode()
def streamed(
    worker: HiggsCodec,
    codes: torch.Tensor,
    sizes: Sequence[int],
    slot: int = 1,
    state: HiggsDecoderState | None = None,
) -> torch.Tensor:
    """Decodes `codes [T, books]` in chunks of these sizes, and the rest in one."""
    state, at, pieces = state or worker.state(SLOTS), 0, []
    for size in (*sizes, len(codes)):
        due = min(size, len(codes) - at)
        if due:
            pieces.append(worker.decode(window(worker, codes, at, due), rows(slot), state))
            at += due
    return torch.cat(pieces, dim=-1)[0, 0]


@torch.inference_mode()
def one_pass(codes: torch.Tensor) -> torch.Tensor:
    """Decodes in float64 with plain padded convolutions, as the layout says."""
    t = {name: tensor.double() for name, tensor in tensors().items()}

    def conv(name: str, x: torch.Tensor, dilation: int = 1) -> torch.Tensor:
        weight = t[f"{name}.weight"]
        return F.conv1d(x, weight, t[f"{name}.bias"], padding=weight.shape[2] // 2 * dilation, dilation=dilation)

    def snake(name: str, x: torch.Tensor) -> torch.Tensor:
        alpha = t[f"{name}.alpha"]
        return x + torch.sin(alpha * x) ** 2 / (alpha + 1e-9)

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, t[f"{name}.weight"], t[f"{name}.bias"])

    at = [f"quantizer.quantizers.{i}" for i in range(codes.shape[1])]
    x = sum(linear(f"{book}.project_out", t[f"{book}.codebook.embed"][codes[:, i]]) for i, book in enumerate(at))
    x = conv("acoustic_decoder.conv1", linear("fc2", x).T[None])
    for i, rate in enumerate(tiny.UP):
        block = f"acoustic_decoder.block.{i}"
        up = (t[f"{block}.conv_t1.weight"], t[f"{block}.conv_t1.bias"], rate, (rate + 1) // 2, rate % 2)
        x = F.conv_transpose1d(snake(f"{block}.snake1", x), *up)
        for j, dilation in enumerate((1, 3, 9), start=1):
            unit = f"{block}.res_unit{j}"
            inner = conv(f"{unit}.conv1", snake(f"{unit}.snake1", x), dilation)
            x = x + conv(f"{unit}.conv2", snake(f"{unit}.snake2", inner))
    return conv("acoustic_decoder.conv2", snake("acoustic_decoder.snake1", x))[0, 0]
