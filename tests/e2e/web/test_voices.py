"""Voice cards and the settings beside them."""

from collections.abc import Callable

from e2e.serve.kinds import served
from e2e.serve.running import Running
from e2e.web.browsing import Visit

Open = Callable[..., Visit]


def test_a_voice_is_heard_before_it_is_chosen_and_made_only_once(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    asked = []
    page.page.on("request", lambda request: request.method == "POST" and asked.append(request.post_data_json["voice"]))
    for _ in range(2):
        page.forget()
        page.voice("high").get_by_role("button", name="Hear high").click()
        page.await_sound()
        page.voice("high").get_by_role("button", name="Hear high").wait_for()  # Stop, until it is over
    assert asked == ["high"]
    assert page.page.get_by_role("radio", name="low").is_checked()


def test_cards_are_chosen_with_arrow_keys(visit: Open, dummy: Running) -> None:
    page = visit(dummy, tapped=False)
    page.page.get_by_role("radio", name="low").focus()
    page.page.keyboard.press("ArrowRight")
    assert page.page.get_by_role("radio", name="high").is_checked()
    page.page.keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.ariaLabel") == "Hear high"


def test_a_voice_that_must_be_downloaded_says_so_before_and_after(visit: Open, tmp_path) -> None:
    with served("hibari", tmp_path) as server:
        page = visit(server)
        assert page.voice("heart").inner_text().split("\n") == ["heart", "female, American"]
        assert page.voice("kore").inner_text().split("\n") == ["kore", "female, American, downloads first"]
        page.choose_voice("kore")
        page.fill("Text", "Hello.")
        page.press("Speak")
        page.page.get_by_text("'kore' is not here yet").wait_for()
        page.choose_voice("heart")
        page.press("Speak")
        page.await_sound()


def test_options_are_folded_and_labelled_with_what_they_do(visit: Open, hibari: Running) -> None:
    page = visit(hibari, tapped=False)
    pause = page.field("Silence between two sentences (s)")
    assert not pause.is_visible()
    page.page.locator("#speak summary").filter(has_text="Advanced").click()
    assert pause.is_visible()
    hint = page.page.locator(f"#{pause.get_attribute('aria-describedby').split()[0]}").inner_text()
    assert hint == "0 to 10. pause_s"


def test_speed_is_a_slider_that_says_its_value(visit: Open, dummy: Running) -> None:
    page = visit(dummy, tapped=False)
    slider = page.field("Speed")
    assert slider.get_attribute("type") == "range"
    slider.press("ArrowRight")
    assert page.page.locator("#speak output").inner_text() == "1.05×"
    slider.dblclick()
    assert page.page.locator("#speak output").inner_text() == "1×"
