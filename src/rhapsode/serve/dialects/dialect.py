"""What a dialect is: rows that lead requests of other clients to our routes, and translate both ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

Fields = dict[str, Any]


@dataclass
class Call:
    """One request of such a client, while it is translated."""

    params: Mapping[str, str]
    """The parts of the path that its row names."""
    voices: Collection[str] = ()
    """Names that the model has voices for; uploaded ones are not among them."""
    headers: dict[str, str] = field(default_factory=dict)
    """Of our answer, in lower case."""
    request_id: str = ""
    query: str = ""
    read: dict[str, Any] = field(default_factory=dict)
    """The JSON of paths that the row needs; None for an error."""
    told: dict[str, str] = field(default_factory=dict)
    """Headers that the answer has beside ours, unless it is an error."""
    kept: Fields = field(default_factory=dict)
    """What the answer needs to know of the request, or of the events before."""


@dataclass(frozen=True)
class Reply:
    """An answer as the client expects it: bytes as they are, anything else as JSON."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class SessionTranslation(Protocol):
    """Translates the messages of one WebSocket."""

    closes: bool
    """Whether the connection is to be closed: the last message has been sent."""

    def inward(self, message: Fields) -> Iterable[Fields]:
        """Returns our messages for one of the client, made as they are asked for."""

    def outward(self, message: Fields) -> list[Fields]:
        """Returns the client's messages for one of ours."""

    def heard(self, size: int) -> None:
        """Counts bytes of audio that are sent as a binary message."""


@dataclass(frozen=True)
class Row:
    """One route of the other server. What is not given passes unchanged."""

    method: str
    path: str
    to: str = ""
    """Our path, if it is another one, or our path with a query."""
    ask: Callable[[Fields, Call], Fields] | None = None
    """Translates a JSON body of a request; may raise an error."""
    needs: Callable[[Fields], list[str]] | None = None
    """Returns paths of ours that are read before the body is translated: what they answer is in `Call.read`."""
    answer: Callable[[Any, Call], Reply] | None = None
    """Translates a whole JSON body of an answer."""
    event: Callable[[str, bytes, Call], bytes | None] | None = None
    """Translates a server-sent event, given by its kind and its data; None leaves it unchanged."""
    headers: Callable[[Call], Mapping[str, str]] | None = None
    """Returns headers that the answer has beside ours, from ours, unless it is an error."""
    stream_type: str = "text/event-stream"
    """The media type of translated events."""
    error: Callable[[int, Fields], Any] | None = None
    """Translates an error, where this route has errors of its own."""
    reply: Callable[[Fields, Call], Reply] | None = None
    """Answers without any route of ours, from the JSON object of the request, which may be empty."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path)))


ELSEWHERE = "/v1/dev"
"""Where routes without a path of ours lead: below `/v1`, so that keys are checked."""


@dataclass(frozen=True)
class Dialect:
    """All that another server's clients rely on."""

    rows: tuple[Row, ...]
    error: Callable[[int, Fields], Any]
    """Translates an error, given by its status and by what our body has under `error`."""
    session: Callable[[str], SessionTranslation] | None = None
    """Translates `WS /v1/audio/speech/stream`, given the session's id."""

    def find(self, method: str, path: str) -> tuple[Row, Mapping[str, str]] | None:
        """Returns the row of a request, and the named parts of its path."""
        for row in self.rows:
            if row.method == method and (found := row.pattern.fullmatch(path)):
                return row, found.groupdict()
        return None
