"""Times of characters, from the times of words."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from rhapsode.alignment.words import WordTime
from rhapsode.serve.elevenlabs.alignment import ContextAlignment
from rhapsode.serve.elevenlabs.characters import MOST_CHARS, CharacterTime, CharacterTimes
from rhapsode.serve.elevenlabs.context import SpeechContext
from rhapsode.serve.elevenlabs.timestamps import TimestampResponse

TEXT = "Hi you."
WORDS = [WordTime("Hi", 0.1, 0.3, 0, 2), WordTime("you", 0.5, 0.8, 3, 6)]


def spelt(times: list[CharacterTime]) -> str:
    return "".join(time.char for time in times)


def test_characters_share_the_time_of_their_word() -> None:
    times = CharacterTimes()
    found = times.add(TEXT, WORDS)
    assert spelt(found) == "Hi you"
    assert [time.start_s for time in found] == pytest.approx([0.1, 0.2, 0.3, 0.5, 0.6, 0.7])
    assert [time.end_s for time in found] == pytest.approx([0.2, 0.3, 0.5, 0.6, 0.7, 0.8])
    assert times.rest(TEXT) == [(".", 0.8, 0.8)]


def test_it_does_not_matter_when_words_become_known() -> None:
    times = CharacterTimes()
    parts = [times.add(TEXT, WORDS[:1]), times.add(TEXT, ()), times.add(TEXT, WORDS[1:]), times.rest(TEXT)]
    assert parts[1] == times.rest(TEXT) == []
    assert "".join(map(spelt, parts)) == TEXT


def test_a_word_that_was_left_out_takes_no_time() -> None:
    words = [WordTime("a", 0.0, 0.1, 0, 1), WordTime("b", 0.1, 0.1, 2, 3)]
    assert [time.start_s for time in CharacterTimes().add("a b", words)] == [0.0, 0.1, 0.1]


def test_words_out_of_order_never_go_back_in_time_or_text() -> None:
    found = CharacterTimes().add("ab", [WordTime("b", 0.5, 0.6, 1, 2), WordTime("a", 0.1, 0.2, 0, 1)])
    assert spelt(found) == "ab"
    assert [time.end_s for time in found] == [0.5, 0.6]


@pytest.mark.parametrize("from_start", [True, False])
def test_clients_find_the_same_times_in_whichever_way_they_read_an_alignment(from_start: bool) -> None:
    """From the start of the context, or added up; requests without an alignment in between take their time."""
    context = ContextAlignment(from_start=from_start)
    parts = [*context.add(TEXT, WORDS[:1]), *context.add(TEXT, WORDS[1:]), *context.end(TEXT, 1.0, is_aligned=True)]
    assert [*context.add("7", ()), *context.end("7", 0.5, is_aligned=False)] == []
    parts += [*context.add(TEXT, WORDS), *context.end(TEXT, 1.0, is_aligned=True)]
    spoken, began_ms, at_ms = "", {}, 0
    for part in parts:
        for char, start_ms in zip(part["chars"], part["charStartTimesMs"], strict=True):
            began_ms[len(spoken)] = start_ms if from_start else at_ms + start_ms
            spoken += char
        at_ms += part["charStartTimesMs"][-1] + part["charDurationsMs"][-1]
    assert spoken == f"{TEXT} {TEXT} "
    assert [began_ms[spoken.index("you")], began_ms[spoken.rindex("you")]] == [500, 2000]
    assert from_start or at_ms == 2500


LONG = "a" * 20_000
ONE_WORD = [WordTime(LONG, 0.0, 9.0, 0, len(LONG))]


class Heard:
    """Speech that is heard at once."""

    def __init__(self, words: list[WordTime]) -> None:
        self.times = SimpleNamespace(words=words)
        self.heard_s = 9.0
        self._left = [b"audio"]

    async def get(self) -> bytes | None:
        return self._left.pop() if self._left else None

    async def messages(self) -> list[bytes] | None:
        return None if (data := await self.get()) is None else [data]

    def sending(self) -> asyncio.Lock:
        return asyncio.Lock()

    def sent(self, left: int) -> None: ...


async def turns_during(work: Any) -> int:
    """How many turns the event loop had while something was done."""
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    task.result()
    return turns


@pytest.mark.parametrize("words", [ONE_WORD, [WordTime("a", 0.0, 0.1, 0, 1)]], ids=["one word", "hardly a word"])
def test_many_characters_are_sent_in_pieces_between_which_others_are_served(words: list[WordTime]) -> None:
    alignments: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        alignments.append(message["alignment"] or {"chars": []})

    async def run() -> None:
        narration: Any = SimpleNamespace(speak=lambda deliver: asyncio.sleep(0))
        context = SpeechContext(narration, send, None, ContextAlignment(from_start=True))
        playback: Any = Heard(words)
        turns = await turns_during(context._deliver(playback, SimpleNamespace(text=LONG)))  # type: ignore[arg-type]
        assert turns > len(LONG) / MOST_CHARS
        await context.cancel()

        async def stream(get: Any, is_complete: Any, *about: Any) -> None:
            while not (lines and is_complete()):
                lines.append(json.loads(await get()))
            assert await get() is None

        response: Any = object.__new__(TimestampResponse)
        response._stream, response._described = stream, lambda playback: {}
        order: Any = SimpleNamespace(request=SimpleNamespace(text=LONG))
        assert await turns_during(response._events(order, Heard(words), None)) > len(LONG) / MOST_CHARS

    asyncio.run(run())
    told = [alignment["chars"] for alignment in alignments]
    streamed = [line["alignment"]["characters"] if line["alignment"] else [] for line in lines]
    for pieces, text in ((told, LONG + " "), (streamed, LONG)):
        assert max(map(len, pieces)) <= MOST_CHARS
        assert "".join(char for piece in pieces for char in piece) == text
