"""Runs a network that was exported as ONNX with PyTorch, on any device: the speech teacher Kokoro.

    python graph.py kokoro.onnx GRAPH --half

writes GRAPH: the nodes as JSON and the weights in parts of at most 48 MB. Reading it needs no other package; writing it
needs `onnx`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from graph_ops import OPERATORS, lstm

PART = 48_000_000
"""Bytes of weights in a file at most, so that a few files travel at a time."""
SMALL = 64
"""Integer constants up to this size are shapes and indices, and stay on the host."""
_ARITHMETIC = frozenset(
    ("Clip", "Expand", "Gather", "Pad", "ReduceMean", "Reshape", "Resize", "STFT", "Slice", "Squeeze", "Unsqueeze")
)
"""Operators that read small integers themselves."""

Change = Callable[[Tensor], Tensor]


class Step(NamedTuple):
    """One node, ready to run: slots instead of names."""

    run: Callable[..., Tensor]
    inputs: tuple[int | None, ...]
    output: int
    attributes: dict[str, Any]
    mixes: bool
    """Inputs must be on one device."""
    done: tuple[int, ...]
    """Values that nothing needs afterwards."""


class Graph:
    """A network. Values that depend on weights alone are computed once."""

    def __init__(self, folder: Path, device: torch.device, kept: Sequence[str] = ()) -> None:
        """`kept` are names of inner values that `run` returns too."""
        described = json.loads((folder / "graph.json").read_text())
        self._device = device
        self._inputs: list[str] = described["inputs"]
        self._kept = (*described["outputs"], *kept)
        values = {name: _placed(value, device) for name, value in _weights(folder).items()}
        for node in described["nodes"]:
            if node["op"] == "Resize":
                values[node["inputs"][2]] = values[node["inputs"][2]].cpu()
            elif node["op"] == "LSTM":
                node["weights"], node["inputs"] = node["inputs"][1:4], node["inputs"][:1]  # states begin at zero
        nodes = [node for node in described["nodes"] if not self._folded(node, values)]
        names = dict.fromkeys([*values, *self._inputs, *(node["outputs"][0] for node in nodes)])
        self._slot = {name: slot for slot, name in enumerate(names)}
        self._constants: list[Tensor | None] = [values.get(name) for name in names]
        self._steps = self._planned(nodes, values)

    def _folded(self, node: dict[str, Any], values: dict[str, Tensor]) -> bool:
        if node["op"] == "LSTM" or not all(name in values for name in node["inputs"] if name):
            return False
        inputs = [values[name] if name else None for name in node["inputs"]]
        found = _operator(node, values)(*_together(inputs, self._device), node["attributes"])
        values[node["outputs"][0]] = found
        return True

    def _planned(self, nodes: list[dict[str, Any]], values: dict[str, Tensor]) -> list[Step]:
        last = {name: i for i, node in enumerate(nodes) for name in node["inputs"] if name and name not in values}
        ends: dict[int, list[int]] = {}
        for name, i in last.items():
            if name not in self._kept:
                ends.setdefault(i, []).append(self._slot[name])
        steps = []
        for i, node in enumerate(nodes):
            inputs = tuple(self._slot[name] if name else None for name in node["inputs"])
            run, mixes = _operator(node, values), node["op"] not in _ARITHMETIC
            done = tuple(ends.get(i, ()))
            steps.append(Step(run, inputs, self._slot[node["outputs"][0]], node["attributes"], mixes, done))
        return steps

    @torch.inference_mode()
    def run(self, inputs: Mapping[str, Tensor], changes: Mapping[str, Change] | None = None) -> dict[str, Tensor]:
        """Returns the outputs and the kept values by name. `changes` are functions of inner values, applied to them."""
        values = list(self._constants)
        for name in self._inputs:
            values[self._slot[name]] = inputs[name].to(self._device)
        changed = {self._slot[name]: change for name, change in (changes or {}).items()}
        for step in self._steps:
            given = [None if slot is None else values[slot] for slot in step.inputs]
            if step.mixes:
                given = _together(given, self._device)
            found = step.run(*given, step.attributes)
            values[step.output] = changed[step.output](found) if step.output in changed else found
            for slot in step.done:
                values[slot] = None
        return {name: value for name in self._kept if (value := values[self._slot[name]]) is not None}


def _operator(node: dict[str, Any], values: Mapping[str, Tensor]) -> Callable[..., Tensor]:
    if node["op"] == "LSTM":
        return lstm(*(values[name] for name in node["weights"]))
    operator, optional = OPERATORS[node["op"]], {"Conv": 3, "ConvTranspose": 3, "Slice": 5, "Clip": 3}
    missing = optional.get(node["op"], 0) - len(node["inputs"])
    if missing <= 0:
        return operator
    return lambda *given: operator(*given[:-1], *[None] * missing, given[-1])


def _together(given: list[Tensor | None], device: torch.device) -> list[Tensor | None]:
    """Moves arrays to the device if one is there already; numbers may stay on the host."""
    if device.type == "cpu" or not any(value is not None and value.is_cuda for value in given):
        return given
    return [value if value is None or value.is_cuda or value.dim() == 0 else value.to(device) for value in given]


def _placed(value: Tensor, device: torch.device) -> Tensor:
    if not value.is_floating_point():
        return value if value.numel() <= SMALL else value.to(device)
    return value.float() if value.dim() == 0 else value.float().to(device)


def _weights(folder: Path) -> dict[str, Tensor]:
    return {name: value for path in sorted(folder.glob("*.safetensors")) for name, value in load_file(path).items()}


def convert(network: Path, folder: Path, dtype: torch.dtype) -> None:
    """Writes an ONNX file as a folder that `Graph` reads; large weights are stored as `dtype`."""
    import onnx
    from onnx import helper, numpy_helper

    graph = onnx.load(network).graph

    def plain(attribute: Any) -> Any:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            return numpy_helper.to_array(value).reshape(-1).tolist()
        return value.decode() if isinstance(value, bytes) else list(value) if isinstance(value, list) else value

    nodes = [
        {
            "op": node.op_type,
            "inputs": list(node.input),
            "outputs": list(node.output),
            "attributes": {attribute.name: plain(attribute) for attribute in node.attribute},
        }
        for node in graph.node
    ]
    weights = {}
    for tensor in graph.initializer:
        value = torch.from_numpy(numpy_helper.to_array(tensor).copy())
        weights[tensor.name] = value.to(dtype) if value.is_floating_point() and value.numel() > SMALL else value
    folder.mkdir(parents=True, exist_ok=True)
    names = {"inputs": [value.name for value in graph.input], "outputs": [value.name for value in graph.output]}
    (folder / "graph.json").write_text(json.dumps({**names, "nodes": nodes}, separators=(",", ":")))
    for number, part in enumerate(_parts(weights)):
        save_file(part, folder / f"weights-{number}.safetensors")


def _parts(weights: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, value in weights.items():
        if size + value.nbytes > PART and parts[-1]:
            parts.append({})
            size = 0
        parts[-1][name] = value
        size += value.nbytes
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", action="store_true", help="store weights as float16")
    options = parser.parse_args()
    convert(options.network, options.folder, torch.float16 if options.half else torch.float32)


if __name__ == "__main__":
    main()
