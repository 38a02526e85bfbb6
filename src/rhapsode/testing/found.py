"""Finds what the contract suite runs over: the subjects that installed families declare."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points

from rhapsode.errors import RhapsodeError, UnknownModel, did_you_mean
from rhapsode.models.lazy import import_name
from rhapsode.models.registry import families, find
from rhapsode.testing.subject import Subject

ENTRY_POINTS = "rhapsode.testing"
"""The name of an entry point is the family's, its value `package.module:SUBJECTS`."""
TEXTS = ("Hello there.", "One two three four.", "Good morning to you all.", "Yes, it is.")


def declared() -> dict[str, str]:
    """Returns the families that declare subjects, and where these are."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


def subjects_of(family: str) -> tuple[Subject, ...]:
    """Returns a family's subjects. One that declares none, and that needs no checkpoint, is spoken to as it is."""
    known, broken = families()
    names = [*known, *(one.name for one in broken)]
    if family not in names:
        raise UnknownModel(f"there is no family '{family}': {did_you_mean(family, names)}")
    spec = find(family).spec  # raises if the family is broken, or lacks something that it needs
    where = declared().get(family)
    if where is not None:
        return _checked(import_name(where), where, family)
    if spec.published:
        raise RhapsodeError(
            f"{family} needs a checkpoint: declare subjects that make one, in an entry point '{family}' of the group "
            f"'{ENTRY_POINTS}'."
        )
    return (Subject(family, TEXTS),)


def _checked(found: object, where: str, family: str) -> tuple[Subject, ...]:
    if not isinstance(found, Sequence) or not found or not all(isinstance(one, Subject) for one in found):
        raise RhapsodeError(f"{where} must be a sequence of rhapsode.testing.subject.Subject, not {found!r}.")
    for subject in found:
        if subject.name != family:
            raise RhapsodeError(f"{where} has a subject of the family '{subject.name}', not of '{family}'.")
        if len(subject.texts) < len(TEXTS):
            raise RhapsodeError(f"a subject of {where} has {len(subject.texts)} texts; the rules need {len(TEXTS)}.")
    return tuple(found)
