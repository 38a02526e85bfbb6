"""Weights of modules in the shapes the kernels read: made once, from what was loaded."""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn.kernels.gpu.conv import Snake, Weights
from rhapsode.nn.snake import SnakeBeta
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d


def conv_weights(module: CausalConv1d) -> Weights:
    conv = module.conv
    matrix = conv.weight.detach().transpose(1, 2).flatten(1).contiguous()  # [N, taps * C]
    return Weights(matrix, bias_of(conv), conv.kernel_size[0], conv.dilation[0])


def phase_weights(module: CausalConvTranspose1d) -> Weights:
    """A transposed convolution's phases as columns, the channels of one phase together."""
    phases = module.phases.unflatten(0, (-1, module.stride))  # [N, stride, C, taps]
    matrix = phases.permute(1, 0, 3, 2).reshape(-1, module.taps * phases.shape[2]).contiguous()
    bias = module.phase_bias.view(-1, module.stride).T.flatten()
    return Weights(matrix, wide(bias), module.taps)


def linear_weights(linear: nn.Linear, norm: Tensor | None = None) -> Weights:
    """`norm`: the weight of the RMS norm before it, which the matrix takes in."""
    matrix = linear.weight.detach()
    if norm is not None:
        matrix = (matrix.float() * norm.detach().float()).to(matrix.dtype)
    return Weights(matrix.contiguous(), None if linear.bias is None else wide(linear.bias))


def snake_weights(module: SnakeBeta) -> Snake:
    frequency = module.alpha.detach().float().exp()
    return Snake(frequency, (module.beta.detach().float().exp() + 1e-9).reciprocal())


def wide(x: Tensor) -> Tensor:
    """In float32: what is added to or multiplied with float32 results."""
    return x.detach().float().contiguous()


def bias_of(module: nn.Conv1d | nn.Linear) -> Tensor:
    return wide(module.weight.new_zeros(module.weight.shape[0]) if module.bias is None else module.bias)
