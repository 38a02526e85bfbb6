"""Clone: a sample becomes a voice that speaks, and is gone when it is deleted."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from e2e.serve.kinds import served
from e2e.serve.running import Running
from e2e.web.browsing import Visit, gaps, samples_of, untimed
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.qwen3_tts import HIDDEN, reference_audio

Open = Callable[..., Visit]
SAMPLE = {
    "name": "ada.wav",
    "mimeType": "audio/wav",
    "buffer": encode(Clip(reference_audio(24_000)[None], 24_000), "wav"),
}
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def _no_voices_left(cloning: Running) -> Iterator[None]:
    yield
    for voice in cloning.http.get("/v1/audio/voices").json()["data"]:
        cloning.http.delete(f"/v1/audio/voices/{voice['id']}")


def uploaded(server: Running) -> dict[str, dict]:
    return {v["name"]: v for v in server.http.get("/v1/audio/voices").json()["data"] if v["kind"] == "uploaded"}


def said(server: Running, **fields) -> np.ndarray:
    answer = server.http.post("/v1/audio/speech", json={"response_format": "pcm", "seed": 1, **fields})
    assert answer.status_code == 200, answer.text
    return samples_of(answer.content)


def played(page: Visit, start: Callable[[], None]) -> tuple[np.ndarray, dict]:
    """What was heard of one request before it was stopped, and the request: random weights may ramble on."""
    page.forget()
    with page.page.expect_request("**/v1/audio/speech") as asked:
        start()
    page.await_sound(12)
    page.page.locator("[role=tabpanel]:visible").get_by_role("button", name="Stop", exact=True).evaluate(
        "node => node.click()"
    )
    page.await_end()
    page.await_silence()
    return page.heard()[:-256], untimed(asked.value.post_data_json)  # without the block that fades


def test_upload_preview_save_speak_delete(visit: Open, cloning: Running) -> None:
    page = visit(cloning, "clone")
    page.field("Sample").set_input_files(SAMPLE)
    page.field("What is said in it (optional)").fill(" the\nref ")

    new = page.page.get_by_role("region", name="A new voice")
    heard, asked = played(page, new.get_by_role("button", name="Preview").click)
    gaps(heard, said(cloning, **asked), stopped=True)
    assert uploaded(cloning) == {}  # a preview keeps nothing

    page.field("Name").fill("Ada")
    new.get_by_role("button", name="Save as a voice").click()
    assert "without it" in new.get_by_role("alert").filter(has_text="without").inner_text()
    assert uploaded(cloning) == {}

    new.get_by_label("The speaker has agreed").check()
    new.get_by_role("button", name="Save as a voice").click()
    shelf = page.page.get_by_role("region", name="Uploaded voices")
    shelf.get_by_text("Ada").wait_for()
    voice = uploaded(cloning)["Ada"]
    assert voice["text"] == asked["ref_text"] == " the\nref "
    assert "agreed" in voice["consent"]

    page.go("Speak")
    page.choose_voice("Ada")
    page.field("Text").fill("Hello there.")
    heard, asked = played(page, lambda: page.press("Speak"))
    assert asked["voice"] == voice["id"]
    gaps(heard, said(cloning, **asked), stopped=True)

    page.go("Clone")
    shelf.get_by_role("button", name="Delete Ada").click()
    assert "Ada" in uploaded(cloning)  # asked once more
    shelf.get_by_role("button", name="Delete Ada for good").click()
    shelf.get_by_text("None yet.").wait_for()
    assert uploaded(cloning) == {}


def test_a_recording_becomes_a_voice(visit: Open, cloning: Running) -> None:
    page = visit(cloning, "clone", tapped=False, permissions=["microphone"])  # under the page's own policy
    page.press("Record")
    page.page.wait_for_timeout(1200)
    page.press("Stop recording")
    playable = "node => new Promise((done) => { node.oncanplay = () => done(node.duration); node.load(); })"
    assert page.page.get_by_label("The sample").evaluate(playable) > 0.7
    page.field("Name").fill("Me")
    page.page.get_by_label("The speaker has agreed").check()
    page.page.get_by_role("region", name="A new voice").get_by_role("button", name="Save as a voice").click()
    page.page.get_by_text("Me is kept.").wait_for()
    assert 0.7 < uploaded(cloning)["Me"]["duration_s"] < 5


def test_two_voices_are_blended(visit: Open, cloning: Running) -> None:
    for name, data in (("One", {}), ("Two", {"speaker_embedding": [(i % 7 - 3) / 50 for i in range(HIDDEN)]})):
        if data:
            answer = cloning.http.post("/v1/audio/voices", json={"name": name, "consent": "yes", **data})
        else:
            file = {"audio_sample": ("a.wav", SAMPLE["buffer"], "audio/wav")}
            answer = cloning.http.post("/v1/audio/voices", data={"name": name, "consent": "yes"}, files=file)
        assert answer.status_code == 201, answer.text
    one, two = (
        np.array(cloning.http.get(f"/v1/audio/voices/{name}/embedding").json()["embedding"]) for name in ("One", "Two")
    )
    page = visit(cloning, "clone")
    blend = page.page.get_by_role("region", name="Blend two voices")
    blend.get_by_label("From").select_option("One")
    blend.get_by_label("To", exact=True).select_option("Two")
    blend.get_by_label("Share of the second").fill("0.5")
    heard, asked = played(page, blend.get_by_role("button", name="Preview").click)
    middle = np.array(asked["speaker_embedding"])
    cosines = [middle @ v / np.linalg.norm(middle) / np.linalg.norm(v) for v in (one, two)]
    assert cosines[0] == pytest.approx(cosines[1], abs=1e-6)
    assert np.linalg.norm(middle) == pytest.approx((np.linalg.norm(one) + np.linalg.norm(two)) / 2)
    gaps(heard, said(cloning, **asked), stopped=True)
    blend.get_by_label("Name").fill("Between")
    blend.get_by_label("Both speakers have agreed").check()
    blend.get_by_role("button", name="Save as a voice").click()
    page.page.get_by_text("Between is kept.").wait_for()
    assert uploaded(cloning)["Between"]["embedding_size"] == HIDDEN


def test_what_is_no_audio_or_a_taken_name_is_told_next_to_its_field(visit: Open, cloning: Running) -> None:
    page = visit(cloning, "clone")
    page.field("Sample").set_input_files({"name": "a.wav", "mimeType": "audio/wav", "buffer": b"no audio at all"})
    page.field("Name").fill("Ada")
    new = page.page.get_by_role("region", name="A new voice")
    new.get_by_label("The speaker has agreed").check()
    new.get_by_role("button", name="Save as a voice").click()
    assert "cannot be read" in page.error_at("Sample")
    cloning.http.post("/v1/audio/voices", json={"name": "Ada", "consent": "y", "speaker_embedding": [0.1] * HIDDEN})
    page.field("Sample").set_input_files(SAMPLE)
    new.get_by_role("button", name="Save as a voice").click()
    assert "already" in page.error_at("Name")


def test_names_are_shown_as_text(visit: Open, dummy: Running) -> None:
    page = visit(dummy, view=None)
    voice = {"id": "v", "name": HOSTILE, "kind": "uploaded", "duration_s": 1.0}
    page.page.route("**/v1/audio/voices", lambda route: route.fulfill(json={"data": [voice]}))
    page.open("clone")
    page.page.get_by_role("region", name="Uploaded voices").get_by_text(HOSTILE).wait_for()
    page.go("Speak")
    assert page.voice(HOSTILE).inner_text().startswith(HOSTILE)
    assert page.page.locator("img[onerror]").count() == 0


def test_a_checkpoint_without_its_encoders_says_what_a_request_may_give(visit: Open, tmp_path) -> None:
    with served("cosyvoice3 without encoders", tmp_path) as server:
        page = visit(server, "clone")
        page.page.get_by_text("together with reference_tokens and speaker_embedding").wait_for()
        assert page.field("Sample").count() == 0


def test_a_family_that_clones_nothing_says_so(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "clone")
    page.page.get_by_text("clones none").wait_for()
    assert page.field("Name").count() == 0
