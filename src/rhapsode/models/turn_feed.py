"""Text that arrives while a request is spoken, for models that take whole sentences: each gets a prompt of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rhapsode.models.prompt import Following
from rhapsode.text.turns import TurnStream


def next_of(stream: TurnStream, part: Callable[[str], Any]) -> Callable[[], Any]:
    """Returns a `Prompt.following` that makes `part(turn)` of the stream's next turn."""

    def following() -> Any:
        turn = stream.next_turn()
        if turn is not None:
            return part(turn)
        return None if stream.closed else Following.NOT_YET

    return following
