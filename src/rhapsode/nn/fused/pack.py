"""Packs the weights of modules into the layouts that the kernels read, once, after loading."""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn.kernels.gpu.conv import ConvWeights
from rhapsode.nn.kernels.snake import SnakeWeights
from rhapsode.nn.snake import Snake, SnakeBeta
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d


def conv_weights(module: CausalConv1d) -> ConvWeights:
    conv = module.conv
    matrix = conv.weight.detach().transpose(1, 2).flatten(1).contiguous()  # [N, taps * C]
    return ConvWeights(matrix, bias_of(conv), conv.kernel_size[0], conv.dilation[0])


def phase_weights(module: CausalConvTranspose1d) -> ConvWeights:
    """Packs a transposed convolution: its phases become columns, with the channels of one phase next to each other."""
    phases = module.phases.unflatten(0, (-1, module.stride))  # [N, stride, C, taps]
    matrix = phases.permute(1, 0, 3, 2).reshape(-1, module.taps * phases.shape[2]).contiguous()
    bias = None if module.phase_bias is None else float32(module.phase_bias.view(-1, module.stride).T.flatten())
    return ConvWeights(matrix, bias, module.taps)


def linear_weights(linear: nn.Linear, norm: Tensor | None = None) -> ConvWeights:
    """Packs a linear layer; the weight of the RMS `norm` before it, if given, becomes part of the matrix."""
    matrix = linear.weight.detach()
    if norm is not None:
        matrix = (matrix.float() * norm.detach().float()).to(matrix.dtype)
    return ConvWeights(matrix.contiguous(), None if linear.bias is None else float32(linear.bias))


def snake_weights(module: SnakeBeta | Snake) -> SnakeWeights:
    if isinstance(module, Snake):
        frequency = module.alpha.detach().float().flatten()
        return SnakeWeights(frequency, (frequency + 1e-9).reciprocal())
    frequency = module.alpha.detach().float().exp()
    return SnakeWeights(frequency, (module.beta.detach().float().exp() + 1e-9).reciprocal())


def float32(x: Tensor) -> Tensor:
    """Returns a contiguous float32 copy, for what is added to or multiplied with float32 results."""
    return x.detach().float().contiguous()


def bias_of(module: nn.Conv1d | nn.Linear) -> Tensor:
    return float32(module.weight.new_zeros(module.weight.shape[0]) if module.bias is None else module.bias)
