"""Reads the weights in an ONNX file, and which layers use them. Nothing in the file is executed.

An ONNX file is a protobuf message; only the few fields that matter here are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from rhapsode.errors import CheckpointError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GRAPH = 7  # of a model
_NODE, _INITIALISER = 1, 5  # of a graph
_INPUT, _NODE_NAME, _OPERATION = 1, 3, 4  # of a node
_DIMENSION, _TYPE, _FLOATS, _NAME, _RAW, _EXTERNAL = 1, 2, 4, 8, 9, 13  # of a tensor
_TYPES = {1: torch.float32, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16}
"""Number formats of weights; tensors of other formats are constants of the graph, and are left out."""
_FLOAT32 = 1


@dataclass(frozen=True)
class OnnxNode:
    """One operation of the graph."""

    operation: str
    name: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class OnnxGraph:
    """The operations of a model in order, and its floating-point tensors by name, as views of the file's bytes."""

    nodes: tuple[OnnxNode, ...]
    tensors: dict[str, Tensor]


def read_onnx(content: bytearray, where: str) -> OnnxGraph:
    """Returns the graph in the content of a file; `where` names the file in errors."""
    try:
        graph = next((field for number, field in _fields(memoryview(content)) if number == _GRAPH), None)
        if not isinstance(graph, memoryview):
            raise ValueError("it has no graph")
        nodes, tensors = list[OnnxNode](), dict[str, Tensor]()
        for number, field in _fields(graph):
            if number == _NODE and isinstance(field, memoryview):
                nodes.append(_node(field))
            elif number == _INITIALISER and isinstance(field, memoryview) and (found := _tensor(field)):
                tensors[found[0]] = found[1]
    except (ValueError, IndexError, UnicodeDecodeError, RuntimeError) as error:
        raise CheckpointError(f"{where} is not a readable ONNX model: {error}.") from None
    return OnnxGraph(tuple(nodes), tensors)


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yields the fields of a message: their numbers, and a number or bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError("a field has an unknown type")
        if at + size > len(message):
            raise ValueError("it ends too early")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")


def _node(message: memoryview) -> OnnxNode:
    inputs, operation, name = list[str](), "", ""
    for number, field in _fields(message):
        if number == _INPUT:
            inputs.append(_text(field))
        elif number == _NODE_NAME:
            name = _text(field)
        elif number == _OPERATION:
            operation = _text(field)
    return OnnxNode(operation, name, tuple(inputs))


def _tensor(message: memoryview) -> tuple[str, Tensor] | None:
    """Returns the name and the values of a tensor; `None` if it is no floating-point tensor."""
    shape, kind, name, values = list[int](), 0, "", memoryview(b"")
    for number, field in _fields(message):
        if number == _DIMENSION:
            shape += [field] if isinstance(field, int) else _varints(field)
        elif number == _TYPE and isinstance(field, int):
            kind = field
        elif number == _NAME:
            name = _text(field)
        elif number == _RAW or (number == _FLOATS and kind == _FLOAT32):
            values = field if isinstance(field, memoryview) else values
        elif number == _EXTERNAL:
            raise ValueError(f"the tensor '{name}' is in another file")
    dtype = _TYPES.get(kind)
    if dtype is None:
        return None
    if len(values) != prod(shape) * dtype.itemsize:
        raise ValueError(f"the tensor '{name}' has {len(values)} bytes, which is not {shape}")
    found = torch.frombuffer(values, dtype=dtype) if len(values) else torch.empty(0, dtype=dtype)
    return name, found.view(shape)


def _varints(packed: memoryview) -> list[int]:
    found, at = list[int](), 0
    while at < len(packed):
        value, at = _varint(packed, at)
        found.append(value)
    return found


def _text(field: int | memoryview) -> str:
    if isinstance(field, int):
        raise ValueError("a name is a number")
    return bytes(field).decode()
