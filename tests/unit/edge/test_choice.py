"""What the edge reads from a request: its model, and what a replica may have cached."""

import asyncio
import json

import pytest

from rhapsode.config.cluster import read_cluster
from rhapsode.edge.choice import ModelNames, RoutingWish, affinity, read_elevenlabs_wish, read_wish
from rhapsode.errors import InvalidRequest, UnknownModel


def wish(body: bytes) -> RoutingWish:
    return asyncio.run(read_wish(body))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"input": "Hi."}, RoutingWish()),
        ({"model": "a", "voice": "Ada"}, RoutingWish(("a",), voice="Ada")),
        ({"voice": {"id": "voice_1"}}, RoutingWish(voice="voice_1")),
        ({"speaker": "Ada", "model": 7}, RoutingWish(voice="Ada")),
        ({"items": [{"model": "a"}]}, RoutingWish()),
        (["model"], RoutingWish()),
    ],
)
def test_a_body_says_what_it_wants(fields: object, expected: RoutingWish) -> None:
    assert wish(json.dumps(fields).encode()) == expected


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"model": NaN}'])
def test_a_body_that_makes_no_sense_is_left_to_the_replica(body: bytes) -> None:
    assert wish(body) == RoutingWish()


def test_a_large_body_is_read_alike() -> None:
    body = {"model": "a", "ref_audio": "data:audio/wav;base64," + "A" * 100_000}
    assert wish(json.dumps(body).encode()).models == ("a",)
    assert wish(json.dumps(body).encode()).voice == wish(json.dumps({**body, "input": "x"}).encode()).voice


def test_items_of_two_models_are_refused_and_unknown_names_are_left_to_the_replica() -> None:
    models = {"first": {"deployment": {"model": "dummy"}}, "second": {"deployment": {"model": "rhapsode-nano"}}}
    names = ModelNames(read_cluster({"models": models}, env={}))

    def chosen(*items: str, queried: str | None = None, **fields: str) -> str:
        body = {"items": [{"model": item} for item in items] + [{"input": "x"}, 3], **fields}
        return names.chosen(asyncio.run(read_wish(json.dumps(body).encode(), is_batch=True)), queried)

    assert chosen("second", "second") == chosen("second", model="rhapsode-nano") == "second"
    assert chosen("second", "nobody") == chosen("second", "") == "second"
    assert chosen("nobody", "nowhere") == chosen() == chosen(model="nobody") == chosen("tts-1", "dummy") == "first"
    assert chosen("nobody", queried="second") == "second"
    for items in (("first", "second"), ("second", "tts-1"), ("second", "gpt-4o-mini-tts-2025")):
        with pytest.raises(InvalidRequest, match="the same model"):
            chosen(*items)


def test_a_session_is_stronger_than_a_voice_and_presets_prefer_nobody() -> None:
    assert affinity("s1", "Ada", ()) == "session:s1"
    assert affinity("", "Ada", ("low",)) == "voice:Ada"
    assert affinity("", "low", ("low",)) is None
    assert affinity("", "Alloy", ()) is None
    assert affinity("", None, ()) is None


def test_names_and_aliases_find_their_model() -> None:
    names = ModelNames(
        read_cluster(
            {
                "models": {
                    "first": {"deployment": {"model": "dummy"}},
                    "dummy": {"deployment": {"server": {"model_aliases": ["kokoro", "tts-1-hd"]}}},
                }
            },
            env={},
        )
    )
    found = [names.find(name) for name in (None, "first", "dummy", "kokoro", "tts-1", "tts-1-hd", "gpt-4o-mini-tts-x")]
    assert found == ["first", "first", "dummy", "dummy", "first", "dummy", "first"]
    with pytest.raises(UnknownModel, match="'first', 'dummy'"):
        names.find("nobody")


@pytest.mark.parametrize(
    ("body", "models"),
    [
        ({"text": "Hi.", "model_id": "one"}, ("one",)),
        ({"model_id": "eleven_multilingual_v2"}, ()),
        ({"model_id": ""}, ()),
        ({"model_id": 5}, ()),
        ({"model_id": "x" * 600}, ()),
        ({"text": "x" * 100_000, "model_id": "one"}, ("one",)),
        ([], ()),
    ],
)
def test_a_client_of_elevenlabs_names_its_model_by_id(body: object, models: tuple[str, ...]) -> None:
    wish = asyncio.run(read_elevenlabs_wish(json.dumps(body).encode(), "low"))
    assert wish == RoutingWish(models, voice="low")
