"""The codes of a frame after the first in one call, and the draw of any code."""

from __future__ import annotations

import ctypes
import itertools
import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rhapsode.nn.kernels.cpu.layers import Stack, StackProgram
from rhapsode.nn.kernels.cpu.library import library
from rhapsode.nn.kernels.cpu.weights import Addresses, format_of, integer, packed, pointer
from rhapsode.nn.kernels.sampling import COLUMNS, NoiseCounters, Settings

_ops: Any = torch.ops
_programs: weakref.WeakValueDictionary[int, PredictorProgram] = weakref.WeakValueDictionary()  # by handle
_handles = itertools.count()
_library = torch.library.Library("rhapsode", "FRAGMENT")
_PER_ROW = (*COLUMNS, "seeds", "steps")
_SETTINGS = "".join(f"Tensor? {name}, " for name in _PER_ROW) + "int order"
_library.define(f"predict_codes(Tensor x, {_SETTINGS}, int handle) -> Tensor")
_library.define(f"draw_code(Tensor scores, Tensor seen, {_SETTINGS}, int book) -> Tensor")


class PredictorWeights(NamedTuple):
    """What a code predictor has beside its layers."""

    norm: Tensor  # [hidden]
    heads: Tensor  # [books, codes, hidden]
    inputs: Tensor  # [books, codes, hidden]
    cos: Tensor | None  # [books + 1, head_dim]
    sin: Tensor | None


class _Predictor(ctypes.Structure):
    _fields_ = (
        ("stack", ctypes.POINTER(Stack)),
        ("norm", ctypes.c_void_p),
        ("heads", ctypes.POINTER(ctypes.c_void_p)),
        *((name, ctypes.c_void_p) for name in ("inputs", "cosines", "sines")),
        *((name, ctypes.c_int64) for name in ("books", "codes", "format")),
    )


class _Settings(ctypes.Structure):
    _fields_ = (*((name, ctypes.c_void_p) for name in _PER_ROW), ("order", ctypes.c_int64))


class PredictorProgram:
    """A code predictor whose weights are packed."""

    def __init__(self, stack: StackProgram, weights: PredictorWeights) -> None:
        self._stack, self._addresses = stack, Addresses()
        self.books, self.codes = weights.heads.shape[:2]
        address = self._addresses.of
        heads_format = format_of(weights.heads)
        heads = (address(packed(head, heads_format)) for head in weights.heads)
        self._heads = (ctypes.c_void_p * self.books)(*heads)
        given = (address(weights.inputs), address(weights.cos), address(weights.sin))
        self.predictor = _Predictor(
            *(ctypes.pointer(stack.stack), address(weights.norm), self._heads, *given),
            *(self.books, self.codes, heads_format),
        )
        self.handle = next(_handles)
        _programs[self.handle] = self

    def predict(self, x: Tensor, settings: Settings, noise: NoiseCounters) -> Tensor:
        """Draws `[B, books]` codes from the first two tokens `x [B, 2, hidden]`."""
        made: Tensor = _ops.rhapsode.predict_codes(x, *_given(settings, noise), self.handle)
        return made


def draw_code(scores: Tensor, seen: Tensor, settings: Settings, noise: NoiseCounters) -> Tensor:
    """Draws one id per row of `scores [B, ids]`. The filters see the scores `seen`."""
    made: Tensor = _ops.rhapsode.draw_code(scores, seen, *_given(settings, noise), noise.book)
    return made


def _given(settings: Settings, noise: NoiseCounters) -> tuple[Tensor | int | None, ...]:
    return *settings.columns().values(), noise.seeds, noise.steps, int(settings.order)


def _predict(x: Tensor, *given: Any) -> Tensor:
    *per_row, order, handle = given
    program, kernels = _programs[handle], library()
    assert kernels is not None
    x, rows = x.contiguous(), len(x)
    held = [tensor if tensor is None else tensor.contiguous() for tensor in per_row]
    settings = _Settings(*(tensor if tensor is None else tensor.data_ptr() for tensor in held), order)
    codes, tables, positions = (
        torch.empty(rows, program.books, dtype=torch.int64),
        *torch.empty(2, 2 * rows, dtype=torch.int64),
    )
    space = torch.empty(kernels.predictor_space(ctypes.byref(program.predictor), integer(rows)))
    kernels.run_predictor(
        *(ctypes.byref(program.predictor), pointer(x), integer(rows), ctypes.byref(settings), pointer(codes)),
        *(pointer(space), pointer(tables), pointer(positions)),
    )
    return codes


def _draw(scores: Tensor, seen: Tensor, *given: Any) -> Tensor:
    *per_row, order, book = given
    kernels = library()
    assert kernels is not None
    scores, seen = scores.contiguous(), seen.contiguous()
    size = scores.shape[1]
    held = [tensor if tensor is None else tensor.contiguous() for tensor in per_row]
    settings = _Settings(*(tensor if tensor is None else tensor.data_ptr() for tensor in held), order)
    space = torch.empty(size)
    last = (integer(book), pointer(space))
    drawn = [
        kernels.draw(pointer(row), pointer(seen[i]), integer(size), ctypes.byref(settings), integer(i), *last)
        for i, row in enumerate(scores)
    ]
    return torch.tensor(drawn)


_library.impl("predict_codes", _predict, "CPU")
_library.impl("draw_code", _draw, "CPU")
