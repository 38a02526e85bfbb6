"""Matroska files by hand: valid, and made of millions of packets that decode to nothing."""

import struct


def element(name: str, content: bytes) -> bytes:
    return bytes.fromhex(name) + struct.pack(">Q", 0x0100_0000_0000_0000 | len(content)) + content


def endless(size: int, codec: str = "A_MPEG/L3", packet: bytes = b"\x00") -> bytes:
    """A file of about this many bytes that has one audio track of tiny packets."""
    number = element("d7", b"\x01") + element("73c5", b"\x01") + element("83", b"\x02")
    sound = element("e1", element("b5", struct.pack(">d", 16_000.0)) + element("9f", b"\x01"))
    tracks = element("1654ae6b", element("ae", number + element("86", codec.encode()) + sound))
    kind = element("4282", b"matroska") + element("4287", b"\x04") + element("4285", b"\x02")
    block = b"\xa3" + bytes([0x80 | len(packet) + 4]) + b"\x81\x00\x00\x80" + packet
    blocks = block * (size // len(block))
    cluster = element("1f43b675", element("e7", b"\x00") + blocks)
    return element("1a45dfa3", kind) + element("18538067", element("1549a966", b"") + tracks + cluster)
