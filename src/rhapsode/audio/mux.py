"""Chooses the muxer that writes samples as the bytes of a format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from rhapsode.audio.av_mux import CODECS, AvMux
from rhapsode.audio.packets import PacketMux
from rhapsode.audio.sample_mux import SampleMux

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rhapsode.audio.formats import Format
    from rhapsode.types import Samples


class Mux(Protocol):
    """Turns samples into the bytes of one format."""

    def write(self, samples: Samples) -> bytes: ...

    def close(self) -> bytes: ...

    def abandon(self) -> None: ...


def mux_for(fmt: Format, sample_rate: int, channels: int, whole: bool, tags: Mapping[str, str]) -> Mux:
    """Returns the muxer of a format; with `whole` all bytes come at the end, and headers have the true length."""
    if fmt.coding:
        return SampleMux(fmt, sample_rate, channels, whole, tags)
    if fmt.has_packets:
        return PacketMux(sample_rate, channels, whole)
    codec = CODECS[fmt.name] if fmt.bit_rate is None else replace(CODECS[fmt.name], bit_rate=fmt.bit_rate)
    return AvMux(codec, sample_rate, channels, whole, tags)


class _NoMux:
    """A muxer that writes nothing: it replaces the muxer of a stream that was cut off."""

    def write(self, samples: Samples) -> bytes:
        return b""

    def close(self) -> bytes:
        return b""

    def abandon(self) -> None: ...


NOTHING = _NoMux()
