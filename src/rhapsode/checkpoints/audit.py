"""Records which configuration keys and which tensors of a checkpoint are read while it is loaded. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_current: ContextVar[Audit | None] = ContextVar("audit", default=None)


@dataclass
class Audit:
    """The configuration keys and tensors that a checkpoint has, and those of them that were read."""

    keys: dict[str, set[str]] = field(default_factory=dict)
    """The keys with plain values in each section of a configuration, by the section's name."""
    keys_read: dict[str, set[str]] = field(default_factory=dict)
    tensors: dict[str, set[str]] = field(default_factory=dict)
    """The names of tensors, by the folder of their files."""
    tensors_read: dict[str, set[str]] = field(default_factory=dict)
    tensors_ignored: dict[str, set[str]] = field(default_factory=dict)
    """Tensors that a family leaves out on purpose."""

    def unknown_keys(self) -> dict[str, list[str]]:
        """Returns the keys that no code reads, by section."""
        found = {where: sorted(keys - self.keys_read[where]) for where, keys in self.keys.items()}
        return {where: keys for where, keys in found.items() if keys}

    def unused_tensors(self) -> dict[str, list[str]]:
        """Returns the tensors that no network reads and none leaves out on purpose, by folder."""
        found = {
            folder: sorted(names - self.tensors_read[folder] - self.tensors_ignored[folder])
            for folder, names in self.tensors.items()
        }
        return {folder: names for folder, names in found.items() if names}


@contextmanager
def auditing() -> Iterator[Audit]:
    """Records what is read inside the block, in this thread."""
    audit = Audit()
    token = _current.set(audit)
    try:
        yield audit
    finally:
        _current.reset(token)


def note_keys(where: str, values: Mapping[str, Any], read: Iterable[str]) -> None:
    """Records which keys the section `where` has, and which keys are read from it."""
    if (audit := _current.get()) is not None:
        plain = {name for name, value in values.items() if not isinstance(value, Mapping)}
        audit.keys.setdefault(where, set()).update(plain)
        audit.keys_read.setdefault(where, set()).update(read)


def note_tensors(folder: str, names: Iterable[str], read: Iterable[str], ignored: Iterable[str]) -> None:
    """Records which tensors a folder has, which of them a network reads, and which it leaves out on purpose."""
    if (audit := _current.get()) is not None:
        audit.tensors.setdefault(folder, set()).update(names)
        audit.tensors_read.setdefault(folder, set()).update(read)
        audit.tensors_ignored.setdefault(folder, set()).update(ignored)
