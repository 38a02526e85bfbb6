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


@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", {}), pytest.param("dark", {"runOnly": ["color-contrast"]}, marks=pytest.mark.slow)]
)
def test_axe_finds_nothing(visit: Open, cloning: Running, scheme: str, rules: dict) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="accessibility checks need axe-playwright-python")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text()
    page = visit(cloning, color_scheme=scheme)
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
