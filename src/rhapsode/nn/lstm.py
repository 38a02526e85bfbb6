"""LSTMs: one that is bidirectional over a padded batch, and a stack that reads whole items."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.nn.derived import Derived
from rhapsode.nn.ragged import Ragged

_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


class BiLSTM(Derived):
    """One LSTM layer that reads each item forwards and backwards. Its tensors are named as those of `torch.nn.LSTM`.

    Nothing is packed: padding comes after an item, so the forward pass reaches it last. The backward pass gets each
    item reversed, with its padding still at the end. So a launch depends on no length that the host must know.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        for ending in ("", "_reverse"):
            shapes = ((4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,))
            for name, shape in zip(_WEIGHTS, shapes, strict=True):
                self.register_parameter(f"{name}{ending}", nn.Parameter(torch.empty(shape)))

    @property
    def inputs(self) -> int:
        return self.get_parameter("weight_ih_l0").shape[1]

    def derive(self) -> None:
        """Puts the weights of each direction into one block of memory, as cuDNN wants them."""
        if not torch.backends.cudnn.is_acceptable(self.get_parameter("weight_ih_l0")):
            return
        from torch.backends.cudnn.rnn import get_cudnn_mode

        for ending in ("", "_reverse"):
            weights, sizes = self._weights(ending), (self.inputs, get_cudnn_mode("LSTM"), self.hidden)
            torch._cudnn_rnn_flatten_weight(weights, len(weights), *sizes, 0, 1, True, False)

    def forward(self, x: Tensor, ragged: Ragged) -> Tensor:
        """Maps `x [B, T, inputs]` to `[B, T, 2 * hidden]`; what it returns beyond the end of an item means nothing."""
        if ragged.mask is None and not x.is_cuda:
            return self._run(x, [*self._weights(""), *self._weights("_reverse")], both=True)
        places = ragged.reversed_places()[..., None]
        forward = self._run(x, self._weights(""))
        backward = self._run(x.gather(1, places.expand_as(x)), self._weights("_reverse"))
        return torch.cat((forward, backward.gather(1, places.expand_as(backward))), dim=2)

    def _weights(self, ending: str) -> list[Tensor]:
        return [self.get_parameter(f"{name}{ending}") for name in _WEIGHTS]

    def _run(self, x: Tensor, weights: list[Tensor], both: bool = False) -> Tensor:
        start = x.new_zeros(1 + both, len(x), self.hidden)
        out: Tensor = torch.lstm(x, (start, start), weights, True, 1, 0.0, False, both, True)[0]
        return out


class LSTMStack(nn.Module):
    """Several layers, forwards only. Their tensors have the names that torch's LSTM gives them."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.hidden, self.layers = hidden, layers
        for layer in range(layers):
            shapes = ((4 * hidden, hidden if layer else inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,))
            for name, shape in zip(_WEIGHTS, shapes, strict=True):
                self.register_parameter(f"{name[:-1]}{layer}", nn.Parameter(torch.empty(shape)))

    def forward(self, x: Tensor) -> Tensor:
        """Returns the last hidden state of the last layer, `[B, hidden]`, for `x [B, T, inputs]`."""
        names = [f"{name[:-1]}{layer}" for layer in range(self.layers) for name in _WEIGHTS]
        weights: list[Tensor] = [self.get_parameter(name) for name in names]
        start = x.new_zeros(self.layers, len(x), self.hidden)
        out: Tensor = torch.lstm(x, (start, start), weights, True, self.layers, 0.0, False, False, True)[0]
        return out[:, -1]
