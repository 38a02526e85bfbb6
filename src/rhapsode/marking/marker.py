"""Applies the marks that a deployment asks for, to samples and to files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rhapsode.marking.payload import Payload
from rhapsode.marking.watermark import Watermark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rhapsode.audio.formats import Format
    from rhapsode.config.marking import MarkingConfig
    from rhapsode.marking.manifest import ManifestSigner


class Marker:
    """The marks of one deployment. With everything switched off it changes nothing."""

    def __init__(self, config: MarkingConfig) -> None:
        self._config = config
        self._signer: ManifestSigner | None = None
        if config.metadata and config.certificate and config.private_key:
            from rhapsode.marking.manifest import ManifestSigner

            self._signer = ManifestSigner(config.certificate, config.private_key, config.deployment)

    def watermarks(self, sample_rate: int, channels: int, made_at: datetime | None = None) -> tuple[Watermark, ...]:
        """Returns the transforms that mark one utterance, made now or earlier: one, or none."""
        if not self._config.watermark:
            return ()
        payload = Payload.at(self._config.deployment, made_at or datetime.now(UTC))
        return (Watermark(payload, sample_rate, channels),)

    def tags(self) -> Mapping[str, str]:
        """Returns the tags to write into a file."""
        if not self._config.metadata:
            return {}
        return {
            "comment": f"AI-generated speech, made with Rhapsode by {self._config.deployment}",
            "date": datetime.now(UTC).date().isoformat(),
            "digital_source_type": "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia",
        }

    def sign(self, data: bytes, fmt: Format) -> bytes:
        """Returns a whole file with its signed manifest, where there is a certificate."""
        return self._signer.sign(data, fmt) if self._signer else data
