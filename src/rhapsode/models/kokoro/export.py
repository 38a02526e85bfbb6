"""The weights in an ONNX export, under the names that the network has."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from rhapsode.checkpoints.onnx import OnnxGraph, OnnxNode

_ROOT = re.compile(r"^(?:encoder\.|decoder\.(?=decoder\.))")
"""The export wraps the text side as `encoder`, and the decoder as another `decoder`."""
_AGAIN = re.compile(r"_\d+$")
"""The ending of a node's name where its layer ran before."""
_PREDICTOR = ("F0", "N", "shared")
"""Layers that the export calls without their owner."""
_GATES = (0, 2, 3, 1)
"""Where the gates of an ONNX LSTM (i, o, f, c) are in torch's order (i, f, c, o)."""
_DIRECTIONS = ("", "_reverse")


def weights_of(graph: OnnxGraph) -> dict[str, Tensor]:
    """Returns the tensors of a checkpoint, without weight norm, which the export has folded.

    Tensors with a name keep it. Others have a number; the layer that reads them tells what they are.
    """
    found = {
        _ROOT.sub("", name): tensor
        for name, tensor in graph.tensors.items()
        if _ROOT.match(name) and ".stft." not in name
    }
    for node in graph.nodes:
        if node.operation == "LSTM" and node.inputs[1] in graph.tensors:
            found |= _lstm(_layer(node), [graph.tensors[name] for name in node.inputs[1:4]])
        elif node.operation in ("Conv", "ConvTranspose", "MatMul") and len(node.inputs) > 1:
            weight = graph.tensors.get(node.inputs[1])
            if weight is not None and not _ROOT.match(node.inputs[1]):
                found[f"{_layer(node)}.weight"] = weight.T if node.operation == "MatMul" else weight
    return found


def _layer(node: OnnxNode) -> str:
    """Returns the name of the layer that a node computes: that of its bias, else the path of the node."""
    if len(node.inputs) == 3 and node.inputs[2].endswith(".bias"):
        return _ROOT.sub("", node.inputs[2]).removesuffix(".bias")
    path = [_AGAIN.sub("", part) for part in node.name.strip("/").split("/")[:-1]]
    layer = _ROOT.sub("", ".".join(path))
    return f"predictor.{layer}" if layer.split(".")[0] in _PREDICTOR else layer


def _lstm(layer: str, tensors: list[Tensor]) -> Mapping[str, Tensor]:
    """Returns torch's tensors of an LSTM in both directions, from weights `[2, 4H, X]` and biases `[2, 8H]`."""
    inputs, hidden, biases = tensors
    found: dict[str, Tensor] = {}
    for i, ending in enumerate(_DIRECTIONS):
        first, second = biases[i].chunk(2)
        named = {"weight_ih_l0": inputs[i], "weight_hh_l0": hidden[i], "bias_ih_l0": first, "bias_hh_l0": second}
        found |= {f"{layer}.{name}{ending}": _in_order(tensor) for name, tensor in named.items()}
    return found


def _in_order(gates: Tensor) -> Tensor:
    parts = gates.chunk(4)
    return torch.cat([parts[i] for i in _GATES])
