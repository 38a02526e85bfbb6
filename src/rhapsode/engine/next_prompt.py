"""What comes after a prompt: the next one of the same request, or the end of its streams."""

from __future__ import annotations

from collections.abc import Sequence

from rhapsode.device.marks import Silence
from rhapsode.device.stream import FrameStream
from rhapsode.engine.row import FrameRow
from rhapsode.engine.stage import Outbox, Text, Work
from rhapsode.engine.texts import AppendedTexts
from rhapsode.models.base import Following


def ask_for_next(row: FrameRow, outbox: Outbox, texts: AppendedTexts) -> None:
    """Asks for the prompt after this one, of this section or of the next, as soon as its text is known.

    Raises what is wrong with text that is found late.
    """
    feed, script = row.prompt.feed, row.job.script
    if row.asked or (feed is not None and feed.steps() is not None):
        return
    payload = row.sequel()
    if payload is Following.NOT_YET:
        return
    row.asked, row.expects = True, payload is not None
    if row.next_opens and payload is not None and payload.text_open and script.current.closed:
        texts.add(Text(row.job, "", final=True))
    if row.expects:
        outbox.ask_for_part(Work(row.job, payload, row.part + 1))


def end_streams(row: FrameRow, streams: Sequence[FrameStream]) -> None:
    """Ends the streams of a request after which nothing follows."""
    for stream in streams:
        if row.job.script.tail_s:
            stream.mark(row.slot, Silence(row.job.script.tail_s, is_pause=True))
        stream.end(row.slot)
