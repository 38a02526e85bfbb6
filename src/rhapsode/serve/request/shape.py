"""Limits the number of values and names in JSON before it is parsed: parsed, it can take a hundred times the memory."""

from __future__ import annotations

from rhapsode.errors import InvalidRequest

MAX_VALUES = 2**17
"""An embedding has up to 2**16 numbers; the commas of a text count, too."""
MAX_NAMES = 2**12


class BodyTooComplex(InvalidRequest):
    status, code = 400, "body_too_complex"


def check_shape(data: bytes) -> None:
    """Raises `BodyTooComplex` if the JSON may hold more values or names than any request needs."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise BodyTooComplex(f"the body is too complex: at most {MAX_VALUES} values are read.")
    if data.count(b":") > MAX_NAMES and data.translate(None, b" \t\r\n").count(b'":') > MAX_NAMES:
        raise BodyTooComplex(f"the body is too complex: at most {MAX_NAMES} names of fields are read.")
