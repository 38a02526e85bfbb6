"""How synthetic audio is marked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from rhapsode.config.section import Section


class MarkingConfig(Section):
    """Marks that say that audio is synthetic. All are off by default."""

    watermark: bool = False
    """An inaudible watermark in the samples: which deployment made them, and when."""
    metadata: bool = False
    """Tags in files that can have them; with a certificate also a signed C2PA manifest in whole files."""
    deployment: Annotated[str, Field(min_length=1, max_length=256)] = "rhapsode"
    """The name of this deployment. The watermark has a 16-bit hash of it."""
    certificate: Path | None = None
    """A chain of certificates (PEM) to sign C2PA manifests with; needs the extra `c2pa`."""
    private_key: Path | None = None
    """The key (PEM, PKCS 8) of the first certificate."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("a signature needs both a certificate and its private key")
        return self
