"""ONNX models written byte by byte: just enough of the format for stand-ins of CosyVoice3's two front-end networks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

FLOAT, INT32, INT64 = 1, 6, 7
_TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int32): INT32, np.dtype(np.int64): INT64}


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def node(operator: str, inputs: Sequence[str], output: str, path: str = "", **attributes: int | Sequence[int]) -> bytes:
    made = b"".join(_bytes(1, name) for name in inputs) + _bytes(2, output) + _bytes(4, operator)
    made += _bytes(3, path) if path else b""
    for name, value in attributes.items():
        if isinstance(value, int):
            made += _bytes(5, _bytes(1, name) + _number(3, value) + _number(20, 2))
        else:
            made += _bytes(5, _bytes(1, name) + b"".join(_number(8, one) for one in value) + _number(20, 7))
    return made


def tensor(name: str, value: np.ndarray) -> bytes:
    dims = b"".join(_number(1, size) for size in value.shape)
    return dims + _number(2, _TYPES[value.dtype]) + _bytes(8, name) + _bytes(9, value.tobytes())


def value(name: str, kind: int, *sizes: int | str) -> bytes:
    """An input or output; a size may be a name."""
    shape = b"".join(_bytes(1, _number(1, size) if isinstance(size, int) else _bytes(2, size)) for size in sizes)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def save(
    file: Path, nodes: Sequence[bytes], constants: Sequence[bytes], inputs: Sequence[bytes], output: bytes
) -> None:
    graph = b"".join(_bytes(1, one) for one in nodes) + _bytes(2, "graph")
    graph += b"".join(_bytes(5, one) for one in constants) + b"".join(_bytes(11, one) for one in inputs)
    file.write_bytes(_number(1, 8) + _bytes(7, graph + _bytes(12, output)) + _bytes(8, _number(2, 13)))


def speaker(file: Path, matrix: np.ndarray) -> None:
    """From a filter bank [1, T, bands] to its mean over time, times `matrix [bands, numbers]`."""
    nodes = [node("ReduceMean", ["fbank"], "mean", axes=[1], keepdims=0), node("MatMul", ["mean", "matrix"], "vector")]
    inputs = [value("fbank", FLOAT, 1, "time", matrix.shape[0])]
    save(file, nodes, [tensor("matrix", matrix)], inputs, value("vector", FLOAT, 1, matrix.shape[1]))


def speech_tokenizer(file: Path, codes: int) -> None:
    """From a mel [1, 128, T] and its length to a token per four frames: a hundred times their mean, modulo `codes`."""
    nodes = [
        node("Slice", ["mel", "start", "end", "axis", "step"], "few"),
        node("ReduceMean", ["few"], "mean", axes=[1], keepdims=0),
        node("Mul", ["mean", "hundred"], "scaled"),
        node("Abs", ["scaled"], "positive"),
        node("Cast", ["positive"], "whole", to=INT64),
        node("Mod", ["whole", "codes"], "tokens"),
    ]
    numbers = {"start": 0, "end": 2**31, "axis": 2, "step": 4, "codes": codes}
    constants = [tensor(name, np.array([number], np.int64)) for name, number in numbers.items()]
    constants.append(tensor("hundred", np.array([100], np.float32)))
    inputs = [value("mel", FLOAT, 1, 128, "time"), value("length", INT32, 1)]
    save(file, nodes, constants, inputs, value("tokens", INT64, 1, "tokens"))
