"""The ONNX operators of the speech teacher's network, as PyTorch functions.

Each function takes a node's inputs, `None` where one is left out, and its attributes. Shapes and other small integers
are tensors on the host, so that nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Attributes = dict[str, Any]
Operator = Callable[..., Tensor]

_TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 11: torch.float64}
_END = 2**31


def _ints(values: Tensor) -> list[int]:
    return [int(value) for value in values.reshape(-1).tolist()]


def shape(x: Tensor, at: Attributes) -> Tensor:
    return torch.tensor(x.shape)


def gather(x: Tensor, index: Tensor, at: Attributes) -> Tensor:
    axis = at.get("axis", 0)
    if index.dim() == 0 and not index.is_cuda:
        return x.select(axis, int(index))
    index = torch.where(index < 0, index + x.shape[axis], index).to(x.device)
    return x.index_select(axis, index.reshape(-1)).unflatten(axis % x.dim(), index.shape or (1,))


def cut(x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None, steps: Tensor | None, at: Attributes) -> Tensor:
    if steps is not None and any(step != 1 for step in _ints(steps)):
        raise ValueError("slices with steps are not supported")
    along = range(len(starts)) if axes is None else _ints(axes)
    for start, end, axis in zip(_ints(starts), _ints(ends), along, strict=True):
        first, last, _ = slice(start, min(end, _END)).indices(x.shape[axis])
        x = x.narrow(axis, first, max(0, last - first))
    return x


def unsqueeze(x: Tensor, axes: Tensor, at: Attributes) -> Tensor:
    for axis in _ints(axes):
        x = x.unsqueeze(axis)
    return x


def reshape(x: Tensor, wanted: Tensor, at: Attributes) -> Tensor:
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(_ints(wanted))])


def expand(x: Tensor, wanted: Tensor, at: Attributes) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, _ints(wanted)))


def fill(wanted: Tensor, at: Attributes) -> Tensor:
    return torch.full(_ints(wanted), at["value"][0])


def count(first: Tensor, last: Tensor, step: Tensor, at: Attributes) -> Tensor:
    return torch.arange(int(first), int(last), int(step), device=last.device)


def divide(a: Tensor, b: Tensor, at: Attributes) -> Tensor:
    whole = not (a.is_floating_point() or b.is_floating_point())
    return torch.div(a, b, rounding_mode="trunc" if whole else None)


def mean(x: Tensor, axes: Tensor, at: Attributes) -> Tensor:
    return x.mean(_ints(axes), keepdim=bool(at.get("keepdims", 1)))


def add_up(x: Tensor, axes: Tensor, at: Attributes) -> Tensor:
    return x.sum(_ints(axes), keepdim=bool(at.get("keepdims", 1)))


def gemm(x: Tensor, weight: Tensor, bias: Tensor, at: Attributes) -> Tensor:
    return F.linear(x, weight if at.get("transB") else weight.T, bias)


def conv(x: Tensor, weight: Tensor, bias: Tensor | None, at: Attributes) -> Tensor:
    before, after = at["pads"]
    if before != after:
        x, before = F.pad(x, (before, after)), 0
    return F.conv1d(x, weight, bias, at["strides"], before, at["dilations"], at["group"])


def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor | None, at: Attributes) -> Tensor:
    before, after = at["pads"]
    if before != after:
        raise ValueError("transposed convolutions with uneven padding are not supported")
    more = at.get("output_padding", [0])
    return F.conv_transpose1d(x, weight, bias, at["strides"], before, more, at["group"], at["dilations"])


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, at: Attributes) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias, at["epsilon"])


def resize(x: Tensor, _: Tensor | None, scales: Tensor, at: Attributes) -> Tensor:
    size = round(x.shape[-1] * float(scales[-1]))
    if at["mode"] == "nearest":
        return x.repeat_interleave(size // x.shape[-1], -1)
    return F.interpolate(x, size, mode="linear", align_corners=False)


def pad(x: Tensor, pads: Tensor, at: Attributes) -> Tensor:
    sizes = _ints(pads)
    axes = len(sizes) // 2
    if any(sizes[: axes - 1]) or any(sizes[axes:-1]):
        raise ValueError("only the last axis can be padded")
    return F.pad(x, (sizes[axes - 1], sizes[-1]), at["mode"])


def stft(x: Tensor, step: Tensor, window: Tensor, length: Tensor, at: Attributes) -> Tensor:
    x = x.squeeze(-1) if x.dim() == 3 else x
    found = torch.stft(x, int(length), int(step), window=window, center=False, return_complex=True)
    return torch.view_as_real(found.transpose(1, 2))  # [B, frames, bins, 2]


def scatter(x: Tensor, index: Tensor, values: Tensor, at: Attributes) -> Tensor:
    changed = x.clone()
    changed[tuple(index.to(x.device).unbind(-1))] = values
    return changed


def clip(x: Tensor, low: Tensor | None, high: Tensor | None, at: Attributes) -> Tensor:
    return x.clamp(None if low is None else float(low), None if high is None else float(high))


def lstm(weight: Tensor, recurrent: Tensor, bias: Tensor) -> Operator:
    """Returns a bidirectional LSTM with these weights as a function; ONNX orders gates i, o, f, c."""
    net = nn.LSTM(weight.shape[2], recurrent.shape[2], bidirectional=True, device=weight.device)

    def ordered(gates: Tensor) -> Tensor:
        i, o, f, c = gates.chunk(4)
        return torch.cat([i, f, c, o])

    with torch.no_grad():
        for way, ending in enumerate(("", "_reverse")):
            first, second = bias[way].chunk(2)
            for name, value in (
                ("weight_ih", weight[way]), ("weight_hh", recurrent[way]), ("bias_ih", first), ("bias_hh", second)
            ):  # fmt: skip
                getattr(net, f"{name}_l0{ending}").copy_(ordered(value))
    net.requires_grad_(False)

    def run(x: Tensor, at: Attributes) -> Tensor:
        steps, batch, _ = x.shape
        return net(x)[0].view(steps, batch, 2, -1).transpose(1, 2)

    return run


OPERATORS: dict[str, Operator] = {
    "Add": lambda a, b, at: a + b,
    "And": lambda a, b, at: a & b,
    "Atan": lambda x, at: x.atan(),
    "Cast": lambda x, at: x.to(_TYPES[at["to"]]),
    "Clip": clip,
    "Concat": lambda *parts: torch.cat(parts[:-1], parts[-1]["axis"]),
    "ConstantOfShape": fill,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Cos": lambda x, at: x.cos(),
    "CumSum": lambda x, axis, at: x.cumsum(int(axis)),
    "Div": divide,
    "Equal": lambda a, b, at: a == b,
    "Exp": lambda x, at: x.exp(),
    "Expand": expand,
    "Floor": lambda x, at: x.floor(),
    "Gather": gather,
    "Gemm": gemm,
    "Greater": lambda a, b, at: a > b,
    "GreaterOrEqual": lambda a, b, at: a >= b,
    "LayerNormalization": layer_norm,
    "LeakyRelu": lambda x, at: F.leaky_relu(x, at.get("alpha", 0.01)),
    "Less": lambda a, b, at: a < b,
    "MatMul": lambda a, b, at: a @ b,
    "Mul": lambda a, b, at: a * b,
    "NonZero": lambda x, at: x.nonzero().T,
    "Pad": pad,
    "Pow": lambda a, b, at: a**b,
    "Range": count,
    "ReduceMean": mean,
    "ReduceSum": add_up,
    "Reshape": reshape,
    "Resize": resize,
    "Round": lambda x, at: x.round(),
    "STFT": stft,
    "ScatterND": scatter,
    "Shape": shape,
    "Sigmoid": lambda x, at: x.sigmoid(),
    "Sin": lambda x, at: x.sin(),
    "Slice": cut,
    "Softmax": lambda x, at: x.softmax(at.get("axis", -1)),
    "Sqrt": lambda x, at: x.sqrt(),
    "Squeeze": lambda x, axes, at: x.squeeze(_ints(axes)),
    "Sub": lambda a, b, at: a - b,
    "Tanh": lambda x, at: x.tanh(),
    "Transpose": lambda x, at: x.permute(at["perm"]),
    "Unsqueeze": unsqueeze,
    "Where": lambda which, a, b, at: torch.where(which, a, b),
}
