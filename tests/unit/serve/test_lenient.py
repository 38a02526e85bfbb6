"""Fields without meaning are left out of large bodies without reading what is large in them."""

import asyncio
import json

from rhapsode.serve.request.large import LONG_BODY_BYTES
from rhapsode.serve.request.lenient import leave_out
from rhapsode.serve.request.schemas import SpeechBody


def test_a_field_is_left_out_beside_a_recording_which_stays_as_it_is() -> None:
    recording = "data:audio/wav;base64," + "A" * LONG_BODY_BYTES
    given = {"input": "Hi. \u00e9", "ref_audio": recording, "odd": 1, "long": "x" * LONG_BODY_BYTES}
    data, left = asyncio.run(leave_out(SpeechBody, json.dumps(given).encode(), ()))
    assert left == ("odd", "long")
    assert json.loads(data) == {"input": "Hi. \u00e9", "ref_audio": recording}


def test_emoji_take_no_more_room_than_before() -> None:
    given = json.dumps({"input": "\U0001f600" * 1000, "odd": 1}, ensure_ascii=False).encode()
    data, left = asyncio.run(leave_out(SpeechBody, given, ()))
    assert left == ("odd",)
    assert len(data) < len(given)
