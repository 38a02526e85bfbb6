"""Log lines are written once per turn of the event loop, and warnings at once."""

import asyncio
import io
import logging
import sys
import time

from rhapsode.serve.observe.log_lines import LineHandler, LoadingLine, TextLines, _name_model


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


def test_a_line_has_its_time_level_text_and_fields() -> None:
    stream = Counting()
    handler = LineHandler(stream)
    handler.setFormatter(TextLines())
    for created, args in ((3600.2, None), (3600.9, None), (3601.0, ("x",))):
        line = logging.LogRecord("rhapsode", logging.INFO, "", 0, "a line %s" if args else "100% done", args, None)
        line.created = created
        line.fields = {"status": 200}
        handler.emit(line)
    begin = [time.strftime("%H:%M:%S", time.localtime(second)) for second in (3600, 3600, 3601)]
    texts = ["100% done", "100% done", "a line x"]
    wanted = [f"{at} INFO    {text} status=200" for at, text in zip(begin, texts, strict=True)]
    assert stream.getvalue().splitlines() == wanted


def test_a_line_with_an_exception_has_its_traceback() -> None:
    stream = Counting()
    handler = LineHandler(stream)
    handler.setFormatter(TextLines())
    try:
        raise ValueError("what went wrong")
    except ValueError:
        handler.emit(logging.LogRecord("rhapsode", logging.ERROR, "", 0, "a failure", None, sys.exc_info()))
    assert "ERROR   a failure" in stream.getvalue()
    assert "ValueError: what went wrong" in stream.getvalue()


def test_lines_of_one_model_of_several_name_it() -> None:
    lines = logging.LogRecord("rhapsode.loading", logging.INFO, "", 0, "loading", None, None)
    lines.fields = {"step": "talk"}
    assert _name_model("narrator", lines)
    assert TextLines().format(lines).endswith("loading model=narrator step=talk")
    assert "loading narrator: talk, " in LoadingLine().next(lines)
    named = record(logging.INFO)
    named.fields = {"model": "rhapsode-nano", "s": 1}
    assert _name_model("narrator", named)
    assert named.fields == {"model": "narrator", "s": 1}
