"""German words with times, measured with a checkpoint in the layout of Hugging Face that the deployment names."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.serve.running import Running, in_thread
from spelling.family import LETTER_S, SPELLING

CHECKPOINT = Path(__file__).parents[2] / "golden/wav2vec2/layer"
TEXT = "Grüße aus Köln, um 7:30 Uhr."
WORDS = ["Grüße", "aus", "Köln", "um", "7:30 Uhr"]  # said as "sieben Uhr dreißig"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    alignment = {"model": str(CHECKPOINT), "language": "de"}
    with in_thread(SPELLING, tmp_path_factory.mktemp("german"), alignment=alignment) as server:
        yield server


def ask(server: Running, **fields):
    body = {"input": TEXT, "stream": False, "word_timestamps": True, **fields}
    return server.http.post("/v1/audio/speech", json=body)


@pytest.mark.parametrize("fields", [{"language": "de"}, {}])
def test_each_german_word_has_its_time_once_and_in_order(server: Running, fields: dict) -> None:
    answer = ask(server, **fields)
    assert answer.status_code == 200, answer.text
    words = answer.json()["words"]
    assert [word["word"] for word in words] == WORDS
    assert [TEXT[word["from"] : word["to"]] for word in words] == WORDS
    times = [time for word in words for time in (word["start"], word["end"])]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] <= 60 * LETTER_S  # its weights are random: the audio bounds the times


def test_the_server_says_which_language_it_measures(server: Running) -> None:
    assert server.http.get("/v1/models").json()["data"][0]["text"]["word_timestamps"] == ["de"]
    refused = ask(server, input="Good morning.", language="en")
    assert refused.status_code == 400
    assert "'de' here, not for 'en'" in refused.json()["error"]["message"]
