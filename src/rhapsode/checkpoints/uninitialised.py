"""Builds networks on the meta device, before their weights are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from rhapsode.errors import CheckpointError

MOST_CALLS = 50_000
"""The most calls of torch functions to build one network; the largest published ones need a few thousand."""


@contextmanager
def on_meta() -> Iterator[None]:
    """Modules that are made in this block have neither memory nor values. `checkpoints.load` gives them both."""
    with torch.device("meta"), Uninitialised():
        yield


class Uninitialised(TorchFunctionMode):
    """Skips initialisers: on the meta device they fill nothing, but the first imports a compiler (two seconds).

    Also counts the calls of torch functions: a broken configuration may ask for a million layers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise CheckpointError("the configuration of this checkpoint asks for too many layers.")
        if getattr(function, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)
