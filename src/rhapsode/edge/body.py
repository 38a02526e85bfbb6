"""The body of a request at the edge: sent to a replica, and kept for another one until an answer begins."""

from __future__ import annotations

from typing import Any

from aiohttp.payload import Payload

from rhapsode.errors import Busy
from rhapsode.serve.middleware.limits import CountedBody

PIECE_BYTES = 2**16


class HeldBody:
    """A body that is dropped when an answer begins, or before if others need its room.

    While a model loads, and once a replica has all of it, the body is only kept in case it has to be sent (again).
    """

    def __init__(self, data: bytes, counted: CountedBody | None = None) -> None:
        self._data: bytes | None = data
        self._counted = counted or CountedBody()
        self.size = len(data)

    @property
    def is_lost(self) -> bool:
        """Whether the body was given up, so that it cannot be sent any more."""
        return self._data is None

    @property
    def data(self) -> bytes:
        assert self._data is not None
        return self._data

    def wait(self) -> None:
        """Notes that the body waits for a replica."""
        self._counted.offer(self._give_up)

    def begin(self) -> None:
        """Notes that the body is being sent. Raises `Busy` if it was given up."""
        self._counted.keep()
        if self._data is None:
            raise Busy("the server's memory for requests is full.")

    def sent(self) -> None:
        """Notes that a replica has all of it."""
        self._counted.offer(self._give_up, is_spare=True)

    def drop(self) -> None:
        self._give_up()
        self._counted()

    def _give_up(self) -> None:
        self._data = None


class OutgoingBody(Payload):
    """Sends a body in pieces, and keeps no reference to its bytes afterwards."""

    _autoclose = True

    def __init__(self, body: HeldBody) -> None:
        super().__init__(body)
        self._size = body.size
        self._body = body

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._body.data.decode(encoding, errors)

    async def write(self, writer: Any) -> None:
        data = memoryview(self._body.data)
        for start in range(0, len(data), PIECE_BYTES):
            await writer.write(bytes(data[start : start + PIECE_BYTES]))
        del data
        self._body.sent()
