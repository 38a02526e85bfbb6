"""Log lines are written once per turn of the event loop, and warnings at once."""

import asyncio
import io
import logging

from rhapsode.serve.observe.logs import LineHandler


class Counting(io.StringIO):
    """Counts how often it is flushed."""

    flushed = 0

    def flush(self) -> None:
        self.flushed += 1


def record(level: int) -> logging.LogRecord:
    return logging.LogRecord("rhapsode", level, "", 0, "a line", None, None)


def test_the_lines_of_one_turn_of_the_event_loop_are_written_together() -> None:
    stream = Counting()

    async def run() -> None:
        handler = LineHandler(stream)
        for _ in range(3):
            handler.emit(record(logging.INFO))
        assert stream.flushed == 0
        await asyncio.sleep(0)
        assert stream.flushed == 1
        handler.emit(record(logging.WARNING))
        assert stream.flushed == 2

    asyncio.run(run())
    assert stream.getvalue() == "a line\n" * 4


def test_a_line_of_another_thread_is_written_at_once() -> None:
    stream = Counting()
    LineHandler(stream).emit(record(logging.INFO))
    assert stream.flushed == 1
