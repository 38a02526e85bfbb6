"""The HTTP client of `rhapsode say --server`. Needs only the standard library and NumPy."""

from __future__ import annotations

import http.client
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np

from rhapsode.audio.samples import from_pcm16
from rhapsode.cli.events import AudioAndWords, read_events
from rhapsode.errors import GenerationFailed, IgnoredWarning, InvalidRequest, RhapsodeError, Unavailable
from rhapsode.types import AudioChunk

SPEECH, WAV_HEADER_BYTES = "/v1/audio/speech", 44
READ_BYTES = 2**14


class RemoteStream:
    """Yields chunks as a server speaks them. A stream that breaks off raises an error, so no short file is saved."""

    marks = None  # the server has marked the samples; its tags are those of its own file

    def __init__(
        self, server: str, body: Mapping[str, Any], api_key: str | None = None, timeout_s: float = 300.0
    ) -> None:
        self._connection, path = connect(server, timeout_s)
        headers = {"Content-Type": "application/json", "Accept": "audio/wav"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        # WAV can have any rate, so the model's own rate is kept. The requested format is encoded here.
        self._has_words = bool(body.get("word_timestamps"))
        wish = {**body, "response_format": "wav", "stream_format": "sse" if self._has_words else "audio"}
        try:
            self._connection.request("POST", f"{path}{SPEECH}", json.dumps(wish).encode(), headers)
            self._response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Unavailable(f"{server} cannot be reached: {error}.") from None
        if self._response.status != 200:
            raise self._failure()
        if ignored := self._response.headers.get("X-Ignored-Fields"):
            warnings.warn(f"the server ignored: {ignored}.", IgnoredWarning, stacklevel=2)
        rate, channels = (self._response.headers.get(name, "") for name in ("X-Sample-Rate", "X-Channels"))
        if not (rate.isdecimal() and channels.isdecimal()):
            self._connection.close()
            raise Unavailable(f"{server} is not a Rhapsode server: its answer has no X-Sample-Rate and X-Channels.")
        self.sample_rate, self.channels = int(rate), int(channels)

    def __iter__(self) -> Iterator[AudioChunk]:
        held = b""
        skip = WAV_HEADER_BYTES
        index = 0
        for data, words in read_events(self._lines()) if self._has_words else self._plain():
            held += data
            if skip:
                held, skip = held[skip:], max(0, skip - len(held))
            whole = len(held) - len(held) % (2 * self.channels)
            if whole or words:
                yield AudioChunk(_samples(held[:whole], self.channels), self.sample_rate, index, words=words)
                held, index = held[whole:], index + 1

    def _plain(self) -> Iterator[AudioAndWords]:
        while data := self._read(lambda: self._response.read1(READ_BYTES)):
            yield data, ()

    def _lines(self) -> Iterator[bytes]:
        while line := self._read(self._response.readline):
            yield line

    def _read(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except (OSError, http.client.HTTPException):
            request_id = self._response.headers.get("X-Request-Id", "?")
            raise GenerationFailed(f"the server broke off; its request id is {request_id}.") from None

    def _failure(self) -> RhapsodeError:
        text = self._response.read().decode("utf-8", "replace")
        try:
            message = str(json.loads(text)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            message = f"the server answered {self._response.status} {self._response.reason}."
        self._connection.close()
        return InvalidRequest(message) if self._response.status < 500 else Unavailable(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()
        self._connection.close()


def connect(server: str, timeout_s: float) -> tuple[http.client.HTTPConnection, str]:
    """Returns a connection to `http://host:port/prefix`, and the prefix."""
    parts = urlsplit(server if "://" in server else f"http://{server}")
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    try:
        if parts.scheme not in kinds or not parts.hostname:
            raise ValueError
        path = parts.path.rstrip("/").removesuffix("/v1")
        return kinds[parts.scheme](parts.hostname, parts.port, timeout=timeout_s), path
    except ValueError:
        raise InvalidRequest(f"'{server}' is no server's address: try http://127.0.0.1:8000") from None


def _samples(data: bytes, channels: int) -> Any:
    return from_pcm16(np.frombuffer(data, "<i2").reshape(-1, channels).T)
