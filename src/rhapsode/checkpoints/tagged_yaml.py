"""Reads YAML with custom tags (`!new:`, `!ref` ...) as plain data. No tag is ever executed. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rhapsode.config.yaml_text import BoundedLoader, load_yaml
from rhapsode.errors import CheckpointError

MOST_BYTES = 2**17
_DEEPEST = 64  # levels of nesting; deeper ones mean that a reference refers to itself
_MOST_VALUES = 100_000  # that references stand for
_LARGEST = 2**53


class TaggedMapping(dict[Any, Any]):
    """A mapping that had a custom tag."""

    tag: str


class TaggedList(list[Any]):
    """A sequence that had a custom tag."""

    tag: str


class TaggedText(str):
    """A scalar that had a custom tag, as it is written: `!ref <name>` is the text `<name>` with the tag `!ref`."""

    tag: str


def read_tagged_yaml(path: Path) -> dict[str, Any]:
    """Returns the mapping in a YAML file; nodes with custom tags become plain data with an attribute `tag`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise CheckpointError(f"{path} is larger than any configuration: {MOST_BYTES} bytes are read.")
        content = load_yaml(path.read_text("utf-8"), _Loader)
    except (OSError, ValueError, yaml.YAMLError):
        raise CheckpointError(f"{path} is not readable YAML.") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold keys and values at its top level.")
    return content


class _Loader(BoundedLoader):
    """The safe loader, which knows plain types only; it keeps nodes with other tags as data."""


def _keep(loader: _Loader, node: yaml.Node) -> TaggedMapping | TaggedList | TaggedText:
    kept: TaggedMapping | TaggedList | TaggedText
    if isinstance(node, yaml.MappingNode):
        kept = TaggedMapping(loader.construct_mapping(node, deep=True))
    elif isinstance(node, yaml.SequenceNode):
        kept = TaggedList(loader.construct_sequence(node, deep=True))
    else:
        assert isinstance(node, yaml.ScalarNode)
        kept = TaggedText(loader.construct_scalar(node))
    kept.tag = node.tag
    return kept


_Loader.add_constructor(None, _keep)


def resolved(value: Any, content: Mapping[str, Any]) -> Any:
    """Returns plain data: each `!ref <name>`, and each product of such names, is replaced by its value in `content`.

    Any other expression in a reference is an error: it would have to be executed.
    """
    return _Resolver(content).of(value)


class _Resolver:
    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content
        self._values = 0

    def of(self, value: Any, depth: int = 0) -> Any:
        self._values += 1
        if depth > _DEEPEST:
            raise CheckpointError("a '!ref' of the checkpoint's YAML refers to itself.")
        if self._values > _MOST_VALUES:
            raise CheckpointError(f"the '!ref's of the checkpoint's YAML stand for more than {_MOST_VALUES} values.")
        if isinstance(value, Mapping):
            return {key: self.of(one, depth + 1) for key, one in value.items()}
        if isinstance(value, list):
            return [self.of(one, depth + 1) for one in value]
        if not isinstance(value, TaggedText):
            return value
        return self._referred(value, depth) if value.tag == "!ref" else str(value)

    def _referred(self, text: str, depth: int) -> Any:
        factors, shown = [], text[:100]
        for term in map(str.strip, text.split("*")):
            name = term[1:-1]
            if not (term.startswith("<") and term.endswith(">")) or name not in self._content:
                raise CheckpointError(
                    f"the checkpoint's YAML has '!ref {shown}': only <names> and their products are read."
                )
            factors.append(self.of(self._content[name], depth + 1))
        if len(factors) == 1:
            return factors[0]
        product: int | float = 1
        for factor in factors:
            if not isinstance(factor, int | float) or abs(factor) > _LARGEST or abs(product) > _LARGEST:
                raise CheckpointError(
                    f"the checkpoint's YAML has '!ref {shown}': only numbers up to 2**53 can be multiplied."
                )
            product *= factor
        return product
