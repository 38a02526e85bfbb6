"""A vocoder with its weights packed for the C kernels of a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.nn.kernels.cpu.library import library
from rhapsode.nn.kernels.cpu.vocoder import ConvolutionStep, VocoderProgram
from rhapsode.nn.kernels.snake import SnakeWeights
from rhapsode.nn.snake import Snake, SnakeBeta
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d, ChainState, StreamingChain, TailState
from rhapsode.nn.vocoder import ResidualUnit, UpsampleBlock


def packed_vocoder(chain: StreamingChain, state: ChainState, tails: Tensor) -> VocoderProgram | None:
    """Packs a chain made by `vocoder`; `None` where no kernels run.

    `state` is its state in any number of slots, as views of `tails [slots + 1, all tails]`: other states have their
    tails at the same places.
    """
    weight = next(chain.parameters())
    if library() is None or weight.is_cuda or weight.dtype != torch.float32:
        return None
    return VocoderProgram(list(_steps(chain, state, tails)))


def _steps(chain: StreamingChain, state: ChainState, tails: Tensor) -> Iterator[ConvolutionStep]:
    snake: SnakeWeights | None = None
    for module, of in zip(chain, state.states, strict=True):
        if isinstance(module, UpsampleBlock):
            assert isinstance(of, ChainState)
            yield from _steps(module.block, of, tails)
        elif isinstance(module, ResidualUnit):
            place = _place(of, tails)
            yield _convolution(module.conv1, place, _weights(module.act1), keeps=True)
            yield _convolution(module.conv2, 0, _weights(module.act2), adds=True)
        elif isinstance(module, CausalConv1d):
            yield _convolution(module, _place(of, tails), snake)
            snake = None
        elif isinstance(module, CausalConvTranspose1d):
            yield _transposed(module, _place(of, tails), snake)
            snake = None
        else:
            snake = _weights(module)


def _weights(activation: nn.Module) -> SnakeWeights:
    assert isinstance(activation, Snake | SnakeBeta)
    return SnakeWeights(activation.frequency, activation.size)


def _place(state: State, tails: Tensor) -> int:
    if not isinstance(state, TailState):
        return 0
    return (state.tail.data_ptr() - tails.data_ptr()) // tails.element_size()


def _convolution(
    module: CausalConv1d, tail: int, snake: SnakeWeights | None, keeps: bool = False, adds: bool = False
) -> ConvolutionStep:
    conv = module.conv
    return ConvolutionStep(conv.weight, conv.bias, tail, conv.dilation[0], 1, snake, keeps, adds)


def _transposed(module: CausalConvTranspose1d, tail: int, snake: SnakeWeights | None) -> ConvolutionStep:
    """The phases as outputs of a convolution, in the order of the samples."""
    stride, outputs = module.stride, module.conv.out_channels
    weight = module.phases.unflatten(0, (outputs, stride)).transpose(0, 1).flatten(0, 1)
    bias = module.phase_bias
    if bias is not None:
        bias = bias.unflatten(0, (outputs, stride)).T.flatten()
    return ConvolutionStep(weight, bias, tail, 1, stride, snake)
