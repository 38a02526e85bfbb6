"""Where the keys of a YAML text stand, for errors."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from rhapsode.config.yaml_text import BoundedLoader

Keys = tuple[str | int, ...]


def lines_of(text: str) -> dict[Keys, int]:
    """Returns the line of each key, counted from 1; nothing for a text that cannot be parsed."""
    try:
        node = yaml.compose(text, BoundedLoader)
    except (yaml.YAMLError, RecursionError):
        return {}
    return {} if node is None else dict(_walk(node, ()))


def _walk(node: yaml.Node, at: Keys) -> Iterator[tuple[Keys, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*at, key.value)
            yield here, key.start_mark.line + 1
            yield from _walk(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            here = (*at, index)
            yield here, value.start_mark.line + 1
            yield from _walk(value, here)
