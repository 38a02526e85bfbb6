"""What fuzz tests share: how many examples they try, and how valid input is damaged."""

import copy
import os
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

NASTY: list[Any] = [
    None, True, False, -1, 0, 1, 7, 2**15, 2**31, 2**63, 10**12, 10**400, -(2**63), 0.5, -0.0, 1e308, 1e-320,
    float("nan"), float("inf"), "", "x", "\x00", "\ud800", "\u0315\u0300" * 50, "9" * 500, "x" * 5000, "1e999",
    "../../etc/passwd", "data:audio/wav;base64,AAAA", "http://127.0.0.1:1/a", [], [[]], [None], [1, "a"], {}, {"": {}},
    {"id": "x"}, {"id": {"id": 1}}, [0.0] * 300, ["a"] * 300,
]  # fmt: skip
"""Values that are wrong, extreme or empty almost everywhere."""


def fuzzed(few: int) -> settings:
    """Returns settings for a quarter of `few` examples in `make test`, and for six times as many in `make test-all`."""
    scale = int(os.environ.get("TEST_EXAMPLES", "1")) / 4
    is_long = scale > 1
    return settings(
        max_examples=max(1, round(few * scale)),
        deadline=None,
        database=None,
        derandomize=not is_long,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def values() -> st.SearchStrategy[Any]:
    """Any JSON value: nasty ones, and small random trees."""
    leaves = st.sampled_from(NASTY) | st.text(max_size=20) | st.integers() | st.floats()
    trees = st.recursive(leaves, lambda one: st.lists(one, max_size=4) | st.dictionaries(_names(), one, max_size=4))
    return trees.map(copy.deepcopy)  # what is drawn may be changed


def _names() -> st.SearchStrategy[str]:
    return st.text(max_size=8) | st.sampled_from(["id", "input", "text", "type", "voice", "items", "audio", "role"])


@st.composite
def damaged(draw: st.DrawFn, tree: Any, times: int = 3) -> Any:
    """Returns a copy of a tree of JSON in which some values were replaced, removed or added."""
    changed = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, times))):
        places = list(_places(changed))
        if not places:
            return draw(values())
        parent, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
            case "replace":
                parent[key] = draw(values())
            case "remove":
                del parent[key]
            case "add" if isinstance(parent, dict):
                parent[draw(_names())] = draw(values())
            case "add":
                parent.insert(key, draw(values()))
    return changed


def _places(tree: Any) -> Any:
    """Yields every container of a tree with each of its keys."""
    entries = tree.items() if isinstance(tree, Mapping) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(entries):
        yield tree, key
        yield from _places(value)


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes, within: int | None = None) -> bytes:
    """Returns bytes of which some were changed, removed, repeated or added; by default anywhere."""
    size = min(len(data), within or len(data))
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, max(0, min(size, len(changed)) - 1)))
        length = draw(st.sampled_from([1, 1, 2, 4, 8, 64]))
        match draw(st.sampled_from(["change", "change", "extreme", "remove", "repeat", "add", "cut"])):
            case "change":
                changed[start : start + length] = draw(st.binary(min_size=length, max_size=length))
            case "extreme":
                changed[start : start + length] = draw(st.sampled_from([b"\x00", b"\xff", b"\x7f", b"\x80"])) * length
            case "remove":
                del changed[start : start + length]
            case "repeat":
                changed[start:start] = changed[start : start + length] * draw(st.integers(1, 50))
            case "add":
                changed[start:start] = draw(st.binary(max_size=16))
            case "cut" if draw(st.integers(0, 3)) == 0:
                del changed[start:]
    return bytes(changed)
