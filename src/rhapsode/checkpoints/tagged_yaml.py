"""Reads YAML with custom tags (`!new:`, `!ref` ...) as plain data. No tag is ever executed. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import yaml

from rhapsode.errors import CheckpointError

_DEEPEST = 64  # levels of nesting; deeper ones mean that a reference refers to itself


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
        content = yaml.load(path.read_text("utf-8"), Loader=_Loader)
    except (OSError, ValueError, AttributeError, RecursionError, yaml.YAMLError):
        raise CheckpointError(f"{path} is not readable YAML.") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold keys and values at its top level.")
    return content


class _Loader(yaml.SafeLoader):
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


def resolved(value: Any, content: Mapping[str, Any], depth: int = 0) -> Any:
    """Returns plain data: each `!ref <name>`, and each product of such names, is replaced by its value in `content`.

    Any other expression in a reference is an error: it would have to be executed.
    """
    if depth > _DEEPEST:
        raise CheckpointError("a '!ref' of the checkpoint's YAML refers to itself.")
    if isinstance(value, Mapping):
        return {key: resolved(one, content, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [resolved(one, content, depth + 1) for one in value]
    if not isinstance(value, TaggedText):
        return value
    return _referred(value, content, depth) if value.tag == "!ref" else str(value)


def _referred(text: str, content: Mapping[str, Any], depth: int) -> Any:
    factors = []
    for term in map(str.strip, text.split("*")):
        name = term[1:-1]
        if not (term.startswith("<") and term.endswith(">")) or name not in content:
            raise CheckpointError(f"the checkpoint's YAML has '!ref {text}': only <names> and their products are read.")
        factors.append(resolved(content[name], content, depth + 1))
    if len(factors) == 1:
        return factors[0]
    if not all(isinstance(factor, int | float) for factor in factors):
        raise CheckpointError(f"the checkpoint's YAML has '!ref {text}': only numbers can be multiplied.")
    return prod(factors)
