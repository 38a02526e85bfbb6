"""Asks for the next prompt of a request, of which several are spoken one after the other."""

from __future__ import annotations

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
