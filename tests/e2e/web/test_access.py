"""The page for everybody: checked by axe, on a phone, while the model loads."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from e2e.serve.running import Running
from e2e.web.browsing import Visit

Open = Callable[..., Visit]
VIEWS = ["speak", "talk", "clone", "compare", "server"]
PHONE = {"width": 390, "height": 844}
CONTRAST = {"runOnly": ["color-contrast"]}


@pytest.mark.parametrize(
    ("colours", "rules"),
    [
        ({"color_scheme": "light"}, {}),
        ({"forced_colors": "active"}, CONTRAST),
        pytest.param({"color_scheme": "dark"}, CONTRAST, marks=pytest.mark.slow),
    ],
    ids=["light", "forced", "dark"],
)
def test_axe_finds_nothing(visit: Open, cloning: Running, colours: dict, rules: dict) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="accessibility checks need axe-playwright-python")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text()
    page = visit(cloning, **colours)
    page.page.evaluate(script)
    page.page.evaluate("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    found = []
    for view in [*VIEWS, "docs"]:
        if view == "docs":
            page.page.goto(f"{page.url}/docs")
            page.page.locator("details").first.click()
            page.page.evaluate(script)
        else:
            page.page.locator(f"#tab-{view}").click()
        results = page.page.evaluate("rules => axe.run(rules)", rules)
        assert results["passes"]
        found += [(view, fault["id"], fault["nodes"][0]["html"]) for fault in results["violations"]]
    assert found == []


def test_forced_colours_show_what_is_chosen_and_what_is_spoken(visit: Open, dummy: Running) -> None:
    """They take backgrounds and shadows away, so that only what names the system's own colours is seen."""
    page = visit(dummy, forced_colors="active")
    page.field("Text").fill("Hi.")
    page.press("Speak")
    page.page.locator(".takes .current").wait_for()
    page.page.evaluate("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    pairs = {
        "voice": (".voice:has(:checked)", ".voice:not(:has(:checked))"),
        "view": ("[role=tab][aria-selected=true]", "[role=tab][aria-selected=false]"),
        "snippet": (".code .button[aria-pressed=true]", ".code .button[aria-pressed=false]"),
        "take": (".takes .current", ".card"),
    }
    looks = {name: [looks_of(page, selector) for selector in pair] for name, pair in pairs.items()}
    assert all(chosen["background"] != other["background"] for chosen, other in looks.values()), looks
    page.page.locator("#speak .voice:not(:has(:checked)) label").first.click()
    assert looks_of(page, ".voice:has(:checked)") == looks["voice"][0]

    page.page.evaluate(
        """async () => {
            const { Highlight } = await import("/web/highlight.js");
            const area = Object.assign(document.createElement("textarea"), { className: "script", value: "One two" });
            const highlight = new Highlight(area);
            document.querySelector("main").prepend(highlight.root);
            highlight.show(4, 7);
        }"""
    )
    assert looks_of(page, ".copy mark:not(:empty)")["shadow"] != "none"
    assert looks_of(page, ".highlighted textarea")["background"] == "rgba(0, 0, 0, 0)"  # the frame lies behind it


def looks_of(page: Visit, selector: str) -> dict[str, str]:
    return page.page.locator(selector).first.evaluate(
        """node => {
            const { backgroundColor, color, boxShadow } = getComputedStyle(node);
            return { background: backgroundColor, color, shadow: boxShadow };
        }"""
    )


WATCH = """() => {
    window.announced = [];
    const regions = document.querySelectorAll("[role=tabpanel]:not([hidden]) :is([role=status], [role=alert])");
    for (const region of regions) {
        // A region that is not there before its text is read by few screen readers.
        const isFolded = region.closest("[hidden], details:not([open])");
        if (!isFolded && getComputedStyle(region).display === "none") throw region.outerHTML;
        new MutationObserver(() => region.textContent && announced.push(region.textContent))
            .observe(region, { childList: true, characterData: true, subtree: true });
    }
}"""


def await_announced(page: Visit, text: str) -> None:
    page.page.wait_for_function("text => announced.at(-1) === text", arg=text)


def test_what_ended_stopped_or_failed_is_announced_once(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    page.page.evaluate(WATCH)
    page.field("Text").fill("Hello.")
    page.press("Speak")
    await_announced(page, "Finished")
    page.await_silence()
    page.forget()  # so that what is awaited next is sound of the next text
    page.field("Text").fill("x" * 300)
    page.press("Speak")
    page.await_sound()
    page.press("Stop")
    page.page.wait_for_function("announced.at(-1).startsWith('Stopped at 0:0')")
    page.page.route(
        "**/v1/audio/speech", lambda route: route.fulfill(status=500, json={"error": {"message": "no luck."}})
    )
    page.press("Speak")
    await_announced(page, "No luck.")
    told = page.page.evaluate("announced")
    assert all(before != after for before, after in pairwise(told)), told

    page.go("Type to talk")
    page.page.evaluate(WATCH)
    page.field("Type or paste").press_sequentially("Hi there. ")
    await_announced(page, "Finished")
    page.page.unroute("**/v1/audio/speech")
    page.go("Compare")
    page.page.evaluate(WATCH)
    page.field("Text").fill("Hello.")
    page.press("Play A")
    await_announced(page, "Finished")


def test_on_a_phone_what_plays_is_always_at_hand(visit: Open, dummy: Running) -> None:
    page = visit(dummy, tapped=False, viewport=PHONE, has_touch=True, is_mobile=True)
    for view, buttons in (("speak", ["Speak", "Stop", "Play"]), ("compare", ["Play A", "Play B", "Stop"])):
        page.page.locator(f"#tab-{view}").click()
        for where in ("0", "document.documentElement.scrollHeight"):
            page.page.evaluate(f"scrollTo(0, {where})")
            for name in buttons:
                box = page.page.locator(f"#{view}").get_by_role("button", name=name, exact=True).bounding_box()
                assert 0 <= box["y"] <= PHONE["height"] - box["height"], (view, name, where)
        assert page.page.evaluate("document.documentElement.scrollHeight") < 1.5 * PHONE["height"]


def test_shortcuts_are_shown(visit: Open, dummy: Running) -> None:
    page = visit(dummy, tapped=False)
    shown = page.page.get_by_role("note", name="Keyboard shortcuts").inner_text()
    assert [word for word in ("speak", "pause", "5 s back", "5 s on", "stop") if word not in shown] == []


def test_a_model_that_is_loading_is_announced_until_it_is_ready(visit: Open, dummy: Running) -> None:
    page = visit(dummy, tapped=False, view=None)
    states = iter(["loading", "loading"])

    def health(route) -> None:
        state = next(states, "ready")
        route.fulfill(status=200 if state == "ready" else 503, json={"status": state, "model": "dummy"})

    page.page.route("**/health", health)
    page.open()
    page.page.get_by_text("dummy is loading").wait_for()
    page.page.get_by_text("dummy is loading").wait_for(state="hidden")
    page.page.get_by_role("status").filter(has_text="dummy is ready.").wait_for()  # heard, not seen
    assert next(states, None) is None  # it asked until the model was ready


def test_the_bounds_of_a_histogram_are_whole_and_apart(visit: Open, dummy: Running) -> None:
    dummy.speak("Hi.")
    page = visit(dummy, "server", tapped=False, viewport=PHONE)
    page.page.locator("#server .bars b").first.wait_for()
    boxes = page.page.evaluate(
        """[...document.querySelectorAll("#server .bars")].map((bars) =>
            [...bars.querySelectorAll("b > span:not(.unlabelled)")].map((label) => {
                const { left, right } = label.getBoundingClientRect();
                return [left, right];
            }))"""
    )
    for labels in boxes:
        assert len(labels) >= 4
        assert all(left >= 0 and right <= PHONE["width"] for left, right in labels)
        assert all(before[1] < after[0] for before, after in pairwise(labels))
