"""What all sections of a configuration share: frozen, and strict about keys."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
DeviceName = Annotated[str, AfterValidator(lambda name: _known_device(name))]
"""`auto`, `cpu`, `cuda` or `cuda:N`. Whether the device exists is checked later, once torch is imported."""
Seconds = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _known_device(name: str) -> str:
    if not re.fullmatch(r"auto|(cpu|cuda)(:\d+)?", name):
        raise ValueError(f"unknown device '{name}': use auto, cpu, cuda or cuda:N")
    return name
