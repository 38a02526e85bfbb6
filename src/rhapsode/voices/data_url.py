"""Reads audio inside a URL: `data:audio/wav;base64,...`."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote_to_bytes

from rhapsode.errors import BadAudio

_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_SPACES = b" \t\r\n\f"


def is_data_url(url: str) -> bool:
    return url[:5].lower() == "data:"


def parse_data_url(url: str, max_bytes: int) -> bytes:
    """Returns the bytes in a `data:` URL, base64 or percent-encoded; else `BadAudio`."""
    header, comma, text = url[5:].partition(",")
    if not is_data_url(url) or not comma:
        raise _bad("The data URL of the reference audio must look like 'data:audio/wav;base64,...'.")
    if len(text) > 4 * max_bytes + 1024:  # base64 with every character percent-encoded
        raise _too_large(max_bytes)
    if not text.isascii():
        raise _bad("The data URL of the reference audio contains characters that need percent-encoding.")
    data = unquote_to_bytes(text)
    if header.lower().rstrip().endswith(";base64"):
        data = _from_base64(data, max_bytes)
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    if not data:
        raise _bad("The reference audio is empty: it has no bytes.")
    return data


def _from_base64(text: bytes, max_bytes: int) -> bytes:
    digits = text.translate(_URL_SAFE, delete=_SPACES)
    padding = len(digits) - len(digits.rstrip(b"="))
    if (len(digits) - padding) * 3 // 4 > max_bytes:
        raise _too_large(max_bytes)
    if not padding:
        digits += b"=" * (-len(digits) % 4)
    try:
        return base64.b64decode(digits, validate=True)
    except binascii.Error:
        raise _bad("The reference audio is not valid base64.") from None


def _too_large(max_bytes: int) -> BadAudio:
    return _bad(f"The reference audio is too large: at most {max_bytes} bytes are allowed.")


def _bad(message: str) -> BadAudio:
    return BadAudio(message, param="ref_audio")
