"""Parses YAML from anyone: its aliases stand for few values, and its numbers are short."""

from __future__ import annotations

from typing import Any

import yaml

MOST_ALIASED = 10_000
"""How many values aliases (`*name`) may add to those that are written. Each level of a nested alias multiplies them."""
MOST_NUMBER_CHARS = 400
MOST_BRACKETS = 32
_TEXT = "tag:yaml.org,2002:str"


class BoundedLoader(yaml.SafeLoader):
    """PyYAML's safe loader. Brackets are nested to a certain depth, as each of them makes it slower."""

    def fetch_flow_collection_start(self, token_class: type[yaml.Token]) -> None:
        if self.flow_level >= MOST_BRACKETS:
            problem = f"brackets are nested at most {MOST_BRACKETS} deep"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.get_mark())
        super().fetch_flow_collection_start(token_class)


def load_yaml(text: str, loader_type: type[BoundedLoader] = BoundedLoader) -> Any:
    """Returns the content of a YAML text; raises `yaml.YAMLError`, and nothing else, if it cannot be read."""
    try:
        loader = loader_type(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _Size().check(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (ValueError, AttributeError, OverflowError, RecursionError):  # impossible dates, bottomless nesting
        raise yaml.YAMLError from None


class _Size:
    """Counts values: as they are written, and with what aliases stand for."""

    def __init__(self) -> None:
        self._sizes: dict[int, int | None] = {}

    def check(self, root: yaml.Node) -> None:
        if self._of(root) > len(self._sizes) + MOST_ALIASED:
            raise _problem(f"aliases stand for more than {MOST_ALIASED} values", root)

    def _of(self, node: yaml.Node) -> int:
        known = self._sizes.get(id(node), 0)
        if known is None:
            raise _problem("an alias stands for itself", node)
        if known:
            return known
        self._sizes[id(node)] = None
        size = 1
        if isinstance(node, yaml.MappingNode):
            size += sum(self._of(key) + self._of(value) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            size += sum(map(self._of, node.value))
        elif node.tag != _TEXT and node.tag.startswith("tag:") and len(node.value) > MOST_NUMBER_CHARS:
            raise _problem(f"a number has more than {MOST_NUMBER_CHARS} characters", node)
        self._sizes[id(node)] = size
        return size


def _problem(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
