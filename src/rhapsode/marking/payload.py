"""The content of a watermark: which deployment made the audio, and in which hour."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEPLOYMENT_BITS, HOUR_BITS, CHECK_BITS = 16, 18, 6
PAYLOAD_BITS = DEPLOYMENT_BITS + HOUR_BITS + CHECK_BITS
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""Hours are counted from here; 18 bits last until 2055."""

_CHECK_POLYNOMIAL = 0b1000011  # x^6 + x + 1


@dataclass(frozen=True)
class Payload:
    """The content of a watermark."""

    deployment: int
    """A 16-bit id: see `deployment_id`."""
    hour: int
    """Hours since `EPOCH`."""

    @classmethod
    def at(cls, deployment: str, moment: datetime) -> Self:
        """Returns the payload of audio that a deployment of this name makes at this moment."""
        hours = int((moment - EPOCH).total_seconds() // 3600)
        return cls(deployment_id(deployment), min(max(hours, 0), 2**HOUR_BITS - 1))

    @property
    def time(self) -> datetime:
        """The start of the hour."""
        return EPOCH + timedelta(hours=self.hour)

    def is_from(self, deployment: str) -> bool:
        """Tells whether a deployment of this name can have made it: one of 65,536 names has the same id by chance."""
        return self.deployment == deployment_id(deployment)

    def bits(self) -> NDArray[np.uint8]:
        """Returns the payload and its check bits, the highest first."""
        word = self.deployment << HOUR_BITS | self.hour
        word = word << CHECK_BITS | _remainder(word)
        return np.array([word >> place & 1 for place in reversed(range(PAYLOAD_BITS))], np.uint8)

    @classmethod
    def from_bits(cls, bits: NDArray[np.uint8]) -> Self | None:
        """Returns the payload of these bits, or None where the check bits do not fit."""
        word = int("".join(map(str, bits.tolist())), 2)
        word, check = word >> CHECK_BITS, word & (2**CHECK_BITS - 1)
        if check != _remainder(word):
            return None
        return cls(word >> HOUR_BITS, word & (2**HOUR_BITS - 1))


def deployment_id(name: str) -> int:
    """Returns the 16-bit id of a deployment's name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[: DEPLOYMENT_BITS // 8], "big")


def _remainder(word: int) -> int:
    """Returns the CRC of a word. A 1 is put before its bits, so that the check bits of a word of zeros are not zero."""
    word = (word | 1 << DEPLOYMENT_BITS + HOUR_BITS) << CHECK_BITS
    for place in reversed(range(CHECK_BITS, DEPLOYMENT_BITS + HOUR_BITS + CHECK_BITS + 1)):
        if word >> place & 1:
            word ^= _CHECK_POLYNOMIAL << place - CHECK_BITS
    return word
