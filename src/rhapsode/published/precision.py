"""The number formats in which a checkpoint is measured."""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.errors import InvalidRequest, did_you_mean
from rhapsode.models.base import ModelSpec


@dataclass(frozen=True)
class Precision:
    """A number format: settings of a deployment."""

    name: str
    dtype: str
    weights: str | None = None

    def flags(self) -> dict[str, str]:
        return {"dtype": self.dtype} | ({"weights": self.weights} if self.weights else {})


PRECISIONS = {
    one.name: one
    for one in (
        Precision("float32", "float32"),
        Precision("bfloat16", "bfloat16"),
        Precision("fp8", "bfloat16", "fp8"),
        Precision("int8", "float32", "int8"),
    )
}
OF_DEVICE = {"cpu": ("float32", "int8"), "cuda": ("bfloat16", "float32", "fp8")}
"""What each kind of device has, the usual one first."""


def precisions(wish: str, device_type: str, spec: ModelSpec) -> tuple[Precision, ...]:
    """Returns the number formats of a list such as `float32,int8`; `auto` is all that the device has."""
    has = OF_DEVICE[device_type]
    if not any(stage.kind == "frame" for stage in spec.pipeline):
        has = has[:1]  # a generator computes as it does
    if wish == "auto":
        return tuple(PRECISIONS[name] for name in has)
    names = tuple(dict.fromkeys(part.strip() for part in wish.split(",")))
    for name in names:
        if name not in has:
            raise InvalidRequest(
                f"--precision takes auto or some of {', '.join(has)} for {spec.name} on this device, not '{name}': "
                f"{did_you_mean(name, has)}"
            )
    return tuple(PRECISIONS[name] for name in names)
