"""Decoder layers in one call: a few tokens, with paged keys and values."""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rhapsode.nn.kernels.cpu.library import library
from rhapsode.nn.kernels.cpu.second_thread import SecondThread
from rhapsode.nn.kernels.cpu.weights import Addresses, format_of, integer, packed, padded_bias, pointer
from rhapsode.nn.kernels.int8 import Int8Weight

_ops: Any = torch.ops
_programs: weakref.WeakValueDictionary[int, StackProgram] = weakref.WeakValueDictionary()  # by handle
_handles = itertools.count()
_library = torch.library.Library("rhapsode", "FRAGMENT")
_library.define(
    "run_layers(Tensor x, Tensor? cos, Tensor? sin, Tensor(a!) keys, Tensor(b!) values, Tensor tables, "
    "Tensor positions, int handle) -> Tensor"
)


MANY_ROWS = 12
"""From so many rows on, as a prompt has, layers run in two threads."""


class LayerWeights(NamedTuple):
    """The weights of a decoder layer with RMS norms and SwiGLU."""

    qkv: Tensor | Int8Weight
    output: Tensor | Int8Weight
    gate_up: Tensor | Int8Weight
    down: Tensor | Int8Weight
    input_norm: Tensor
    inner_norm: Tensor
    query_norm: Tensor | None
    key_norm: Tensor | None
    qkv_bias: Tensor | None
    output_bias: Tensor | None


class StackSizes(NamedTuple):
    """The sizes of a stack of such layers."""

    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    head_eps: float

    @property
    def supported(self) -> bool:
        return library() is not None and not (self.hidden % 8 or self.head_dim % 8)


class _Layer(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in LayerWeights._fields)


class Stack(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("hidden", "ffn", "layers", "heads", "kv_heads", "head_dim", "format")),
        *((name, ctypes.c_double) for name in ("eps", "head_eps")),
        ("layer", ctypes.POINTER(_Layer)),
    )


class _Cache(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("keys", "values")),
        *((name, ctypes.c_int64) for name in ("layer_size", "page_size", "cell_size", "table_size", "is_ring")),
        ("tables", ctypes.c_void_p),
    )


class StackProgram:
    """A stack of layers whose weights are packed."""

    def __init__(self, layers: Sequence[LayerWeights], sizes: StackSizes) -> None:
        self._format = format_of(*(weight for layer in layers for weight in layer[:4]))
        self._addresses = Addresses()
        self._layers = (_Layer * len(layers))(*(self._packed(layer) for layer in layers))
        self.stack = Stack(
            *(sizes.hidden, sizes.ffn, len(layers), sizes.heads, sizes.kv_heads, sizes.head_dim, self._format),
            *(sizes.eps, sizes.head_eps, self._layers),
        )
        self.handle = next(_handles)
        _programs[self.handle] = self

    def _packed(self, layer: LayerWeights) -> _Layer:
        address, products = self._addresses.of, [packed(weight, self._format) for weight in layer[:4]]
        norms = [None if norm is None else norm.float() for norm in layer[4:8]]
        biases = [padded_bias(bias) for bias in layer[8:]]
        return _Layer(*(address(tensor) for tensor in (*products, *norms, *biases)))

    def run(
        self,
        x: Tensor,
        cos: Tensor | None,
        sin: Tensor | None,
        keys: Tensor,
        values: Tensor,
        tables: Tensor,
        positions: Tensor,
    ) -> Tensor:
        """Runs the tokens `x [N, hidden]` at `positions [N]`, without the last norm; of one request in their order.

        Keys and values are those of `KVPages`, `tables [N, pages]` their pages, and the rotary angles `[N, head_dim]`.
        """
        made: Tensor = _ops.rhapsode.run_layers(x, cos, sin, keys, values, tables, positions, self.handle)
        return made

    def run_rings(
        self, x: Tensor, cos: Tensor | None, sin: Tensor | None, ring: Tensor, slots: Tensor, at: Tensor
    ) -> None:
        """Runs tokens, in place, with a sliding window: each attends only to the last `window` positions of its slot.

        `ring [slots, window, layers, 2, kv_heads, head_dim]` has their keys and values: position p is at p % window.
        `slots [N]` and the positions `at [N]` say where each token belongs.
        """
        width, window = self.stack.kv_heads * self.stack.head_dim, ring.shape[1]
        addresses = ring.data_ptr(), ring.data_ptr() + width * ring.element_size()
        cache = _Cache(*addresses, 2 * width, window, self.stack.layers * 2 * width, 1, True, slots.data_ptr())
        self.launch(cache, x, cos, sin, at)

    def launch(self, cache: _Cache, x: Tensor, cos: Tensor | None, sin: Tensor | None, positions: Tensor) -> None:
        """Runs `x [N, hidden]` in place; all tensors are contiguous. Two threads share the rows where they are many."""
        given = (cache, x, cos, sin, positions)
        if len(x) < MANY_ROWS or cache.is_ring:
            self._run(*given, slice(0, len(x)))
            return
        progress, middle = ctypes.c_int64(0), len(x) // 2
        with SecondThread() as second:
            second.do(self._lead, *given, slice(0, middle), progress)
            self._run(*given, slice(middle, len(x)), progress)

    def _lead(self, *given: Any) -> None:
        """Runs the first rows, for which the other thread waits."""
        try:
            self._run(*given)
        except BaseException:
            given[-1].value = -1  # nobody may wait for ever
            raise

    def _run(
        self,
        cache: _Cache,
        x: Tensor,
        cos: Tensor | None,
        sin: Tensor | None,
        positions: Tensor,
        rows: slice,
        progress: ctypes.c_int64 | None = None,
    ) -> None:
        """Runs some rows through all layers.

        Two threads share `progress`: the one with the first rows counts there the layers whose keys and values it has
        stored, and the other waits for that in each layer.
        """
        kernels = library()
        assert kernels is not None
        x, positions = x[rows], positions[rows]
        cos, sin = (None if angles is None else angles[rows] for angles in (cos, sin))
        cache = _Cache.from_buffer_copy(cache)
        cache.tables += rows.start * cache.table_size * ctypes.sizeof(ctypes.c_int64)
        stack, most = ctypes.byref(self.stack), cache.page_size * (1 if cache.is_ring else cache.table_size)
        space = torch.empty(kernels.layers_space(stack, integer(len(x)), integer(most)))
        stride = integer(0 if cos is None else cos.shape[1])
        tensors = pointer(x), integer(len(x)), pointer(positions), pointer(cos), pointer(sin), stride, pointer(space)
        others = None if progress is None else ctypes.byref(progress), integer(rows.start > 0)
        if not kernels.run_layers(stack, ctypes.byref(cache), *tensors, *others):
            raise IndexError("a position is past the pages of its request.")


def _run(
    x: Tensor,
    cos: Tensor | None,
    sin: Tensor | None,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    positions: Tensor,
    handle: int,
) -> Tensor:
    program = _programs[handle]
    x, tables, positions = x.clone(memory_format=torch.contiguous_format), tables.contiguous(), positions.contiguous()
    cos, sin = (None if angles is None else angles.contiguous() for angles in (cos, sin))
    width = program.stack.kv_heads * program.stack.head_dim
    addresses, sizes = (keys.data_ptr(), values.data_ptr()), (keys.stride(0), keys.shape[2], width, tables.shape[1])
    program.launch(_Cache(*addresses, *sizes, False, tables.data_ptr()), x, cos, sin, positions)
    return x


_library.impl("run_layers", _run, "CPU")
