"""Errors about abilities: what a checkpoint cannot do, and which kinds of checkpoints can."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from rhapsode.errors import InvalidRequest, did_you_mean
from rhapsode.models.registry import families
from rhapsode.types import ModelInfo, SpeechRequest

VERBS = {
    "presets": "choose a voice by name",
    "clone": "clone voices",
    "continuation": "continue recordings",
    "embedding": "take a speaker embedding",
    "design": "design a voice from a description",
    "instructions": "take instructions",
    "text_stream": "take text while it speaks",
    "mixes": "mix voices",
}
"""Each field of `Capabilities` in words, as the end of "it cannot ..."."""


def unable(info: ModelInfo, ability: str, param: str) -> InvalidRequest:
    """Returns the error of a request that needs an ability which the checkpoint lacks."""
    can = ", ".join(info.can.names()) or "nothing of the kind"
    spec = families()[0].get(info.family)
    hint = info.instead.get(ability) or (spec.instead.get(ability) if spec else None)
    return InvalidRequest(
        f"{info.title} cannot {VERBS[ability]}; it can do: {can}. {hint or who_can(ability)}", param=param
    )


def without_ignored(request: SpeechRequest, info: ModelInfo) -> tuple[SpeechRequest, str]:
    """Returns a request without instructions that the checkpoint cannot take, and a warning about them.

    OpenAI's users set instructions as a routine, so they are no error. The warning is empty if nothing is left out.
    """
    if not request.instructions or info.can.instructions:
        return request, ""
    return replace(request, instructions=None), ignored_instructions(info)


def ignored_instructions(info: ModelInfo) -> str:
    return f"instructions are ignored: {unable(info, 'instructions', 'instructions').message}"


def can_clone(info: ModelInfo, given: Container[str]) -> bool:
    """Returns whether the checkpoint can clone voices, or a request gives all that it needs beside a recording."""
    return info.can.clone or (info.takes_references and all(name in given for name in info.reference_needs))


def unknown_name(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error message about an unknown option or field: the families that have such an option, or
    the nearest known name."""
    owners = [spec.name for spec in families()[0].values() if name in spec.option_names and not spec.hidden]
    return f"it is an option of {', '.join(owners)}." if owners else did_you_mean(name, known)


def who_can(ability: str) -> str:
    """Returns a sentence that names the checkpoints with an ability."""
    names: list[str] = []
    for spec in families()[0].values():
        if spec.hidden:
            continue
        if spec.kinds:
            names += [f"{spec.name} {kind}".rstrip() for kind, can in spec.kinds.items() if ability in can.names()]
        elif ability in spec.can.names():
            names.append(spec.name)
    return f"Checkpoints that can: {', '.join(names)}." if names else "No family here can."
