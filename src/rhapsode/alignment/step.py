"""Computes one block of one stream, with C kernels or a trace, since Python between small operators takes most time."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.alignment.network import AcousticNetwork, LetterBlock
from rhapsode.device.trace import Trace, Untraceable
from rhapsode.nn.kernels.cpu.convnext import ConvNeXtProgram, ConvNeXtWeights
from rhapsode.nn.kernels.cpu.library import library


class PackedStep:
    """Continues one stream by a block on a CPU, each block of layers in one call of C."""

    def __init__(self, network: AcousticNetwork) -> None:
        self._network = network
        self._programs = [_packed(block) for block in network.blocks if isinstance(block, LetterBlock)]

    def __call__(self, samples: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the log-probabilities `[T, symbols]` and the state after a block `samples [N]`."""
        network, after = self._network, tails[:, 0].clone()
        x = network.enter(network.features(samples[None])[0])
        for program, tail in zip(self._programs, after, strict=True):
            program.run(x, tail)
        return network.leave(network.norm(x)).log_softmax(-1), after[:, None]


def _packed(block: LetterBlock) -> ConvNeXtProgram:
    norm, up, down = block.norm, block.up, block.down
    convolution = block.taps, torch.zeros(block.taps.shape[1])
    products = up.weight, up.bias, down.weight, down.bias
    return ConvNeXtProgram(ConvNeXtWeights(*convolution, norm.weight, norm.bias, *products), norm.eps, relu=True)


class TracedStep:
    """Continues one stream by a block where there is no C compiler: replays a trace of the network's own operators.

    It gives the same bits as the network.
    """

    def __init__(self, network: AcousticNetwork, samples: int) -> None:
        self._samples, self._tails = torch.zeros(1, samples), network.fresh(1)[:, 0]

        def step(samples: Tensor, tails: Tensor) -> Tensor:
            log_probs: Tensor
            log_probs, after = network(network.features(samples)[0], tails)  # one stream: fewer operators
            tails.copy_(after)
            return log_probs

        self._trace = Trace(step, (self._samples, self._tails), ())

    def __call__(self, samples: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the log-probabilities `[T, symbols]` and the state after a block `samples [N]`."""
        self._samples[0].copy_(samples)
        self._tails.copy_(tails[:, 0])
        log_probs = self._trace.replay()
        assert log_probs is not None
        return log_probs, self._tails[:, None].clone()


def step_of(network: AcousticNetwork, samples: int) -> PackedStep | TracedStep | None:
    """Returns the step for blocks of this many samples; `None` on a GPU, or where the network cannot be traced."""
    if network.bank.device.type != "cpu":
        return None
    if library() is not None:
        return PackedStep(network)
    try:
        with torch.inference_mode():
            return TracedStep(network, samples)
    except Untraceable:
        return None
