"""Compare: one text, two settings; and which is which stays unknown until somebody has chosen."""

from collections.abc import Callable

import pytest

from e2e.serve.running import Running
from e2e.web.browsing import Visit, gaps, samples_of

Open = Callable[..., Visit]
TEXT = "Which?"


def said(server: Running, voice: str):
    return samples_of(
        server.speak(TEXT, voice=voice, seed=2, response_format="pcm", sample_rate=16_000).content
    )  # fmt: skip


def set_up(page: Visit) -> None:
    page.field("Text").fill(TEXT)
    for side, voice in (("A", "low"), ("B", "high")):
        card = page.page.get_by_role("region", name=f"Setting {side}")
        card.locator(".voice label").filter(has_text=voice).click()
        card.get_by_text("Advanced").click()
        card.get_by_label("Seed").fill("2")


def heard_after(page: Visit, button: str):
    page.forget()
    page.press(button)
    page.await_sound()
    page.await_end()
    page.await_silence()
    return page.heard()


def test_both_sides_are_heard_with_their_own_settings(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "compare")
    set_up(page)
    gaps(heard_after(page, "Play A"), said(dummy, "low"))
    gaps(heard_after(page, "Play B"), said(dummy, "high"))
    for side in ("A", "B"):
        figures = page.page.get_by_role("region", name=f"Setting {side}").locator("[data-figure=firstAudioMs]")
        assert figures.inner_text().endswith("s")


@pytest.mark.slow
def test_a_blind_trial_tells_which_was_which_only_after_the_choice(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "compare")
    set_up(page)
    page.page.get_by_label("Blind", exact=True).check()
    assert not page.page.get_by_role("button", name="Play A").is_visible()
    page.press("Make both, shuffled")
    status = page.page.locator("#compare p[role=status]")
    page.page.get_by_role("button", name="Play 1").wait_for()
    plays = [(heard_after(page, "Play 1"), heard_after(page, "Play 2")) for _ in range(2)]
    assert "was" not in status.inner_text()
    page.press("1 is better")
    told = status.inner_text()
    order = ("low", "high") if "1 was A" in told else ("high", "low")
    for number, voice in enumerate(order):  # where another process takes the machine away, a clip may come late
        assert min(gaps(played[number], said(dummy, voice)) for played in plays) == 0
    assert f"{'A' if order[0] == 'low' else 'B'} 1" in told


def test_an_error_is_told_on_the_side_it_concerns(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "compare")
    card = page.page.get_by_role("region", name="Setting B")
    card.get_by_text("Advanced").click()
    card.get_by_label("Seed").fill("-1")
    page.press("Play B")
    card.get_by_role("alert").filter(has_text="greater than or equal to 0").wait_for()
    other = page.page.get_by_role("region", name="Setting A").get_by_role("alert")
    assert other.filter(has_text="greater than or equal to 0").count() == 0
