"""Reads YAML with custom tags (`!new:`, `!ref` ...) as plain data. No tag is ever executed. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rhapsode.errors import CheckpointError


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
    """Returns the mapping in a YAML file; nodes with custom tags become plain data that knows its `tag`."""
    try:
        content = yaml.load(path.read_text("utf-8"), Loader=_Loader)
    except (OSError, ValueError, AttributeError, RecursionError, yaml.YAMLError):
        raise CheckpointError(f"{path} is not readable YAML.") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold keys and values at its top level.")
    return content


class _Loader(yaml.SafeLoader):
    """The safe loader, which knows plain types alone, and keeps what has another tag as data."""


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
