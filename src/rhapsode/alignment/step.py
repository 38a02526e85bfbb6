"""One block of one listener, traced: most of its time would else be Python between small operators."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.alignment.network import AcousticNetwork
from rhapsode.device.trace import Trace, Untraceable


class AcousticStep:
    """Continues one stream by a block on a CPU. It runs the network's operators, so it gives the same bits."""

    def __init__(self, network: AcousticNetwork, samples: int) -> None:
        self._samples, self._tails = torch.zeros(1, samples), network.fresh(1)[:, 0]

        def step(samples: Tensor, tails: Tensor) -> Tensor:
            log_probs: Tensor
            log_probs, after = network(network.features(samples)[0], tails)  # one stream: fewer operators
            tails.copy_(after)
            return log_probs

        self._trace = Trace(step, (self._samples, self._tails), ())

    @classmethod
    def of(cls, network: AcousticNetwork, samples: int) -> AcousticStep | None:
        """Returns the step for blocks of so many samples; none on another device, or where it cannot be traced."""
        if network.bank.device.type != "cpu":
            return None
        try:
            with torch.inference_mode():
                return cls(network, samples)
        except Untraceable:
            return None

    def __call__(self, samples: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the log-probabilities `[T, symbols]` and the state after a block `samples [N]`."""
        self._samples[0].copy_(samples)
        self._tails.copy_(tails[:, 0])
        log_probs = self._trace.replay()
        assert log_probs is not None
        return log_probs, self._tails[:, None].clone()
