"""The page as such: who may see it, where it loads from, how it is used without a mouse or a large screen."""

import re
from collections.abc import Callable
from pathlib import Path

import rhapsode.serve
from e2e.serve.running import Running
from e2e.web.browsing import Visit

Open = Callable[..., Visit]
VIEWS = ["speak", "talk", "clone", "compare", "server"]
WEB = Path(rhapsode.serve.__file__).parent / "web"

NAMELESS = """[...document.querySelectorAll("input, select, textarea, button, summary, audio")]
    .filter((node) => !node.closest("[hidden]") && !(node.labels?.length || node.ariaLabel || node.textContent.trim()))
    .map((node) => node.outerHTML)"""


def test_every_view_works_under_the_page_s_own_policy(visit: Open, dummy: Running) -> None:
    page = visit(dummy, tapped=False)
    for view in VIEWS[1:]:
        page.page.locator(f"#tab-{view}").click()
        page.page.locator(f"#{view}").wait_for()
    page.go("Speak")
    page.press("Speak")
    page.page.locator("#speak [data-figure=firstAudioMs]").filter(has_text="s").wait_for(state="attached")
    page.press("Stop")
    page.field("Format").select_option("mp3")
    with page.page.expect_download() as got:
        page.press("Download this take")
    assert got.value.path().stat().st_size > 1000
    loaded = [url for url in page.requests if "/web/" in url or url.endswith("/")]
    sizes = [len(dummy.http.get(url).content) for url in loaded]
    assert sum(sizes) < 200_000
    policy = dummy.http.get("/").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


def test_a_server_with_keys_shows_the_page_and_asks_for_one(visit: Open, guarded: Running) -> None:
    assert guarded.http.get("/").status_code == 200
    visitor = visit(guarded, view=None)
    page = visitor.page
    page.goto(guarded.url)
    page.get_by_text("This server asks for an API key").wait_for()
    assert page.get_by_role("alert").filter(has_text="API key").count() == 0  # nothing is wrong yet
    assert page.get_by_label("API key").get_attribute("aria-invalid") is None
    page.get_by_label("API key").fill("sk-wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="API key is missing or wrong").wait_for()
    page.get_by_label("API key").fill("sk-one")
    page.get_by_role("button", name="Use it").click()
    page.get_by_role("tab", name="Speak").wait_for()
    assert not page.get_by_label("API key").is_visible()
    visitor.press("Speak")
    visitor.await_sound()
    visitor.press("Stop")
    visitor.go("Type to talk")
    visitor.forget()
    visitor.field("Type or paste").press_sequentially("Keys open sockets, too. ")
    visitor.await_sound()
    assert "sk-one" not in page.content()


def test_views_are_reached_by_keys_and_by_address(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "clone")
    assert page.page.get_by_role("tab", selected=True).inner_text() == "Clone"
    page.page.get_by_role("tab", selected=True).focus()
    page.page.keyboard.press("ArrowRight")
    assert page.page.get_by_role("tab", selected=True).inner_text() == "Compare"
    assert page.page.url.endswith("#compare")
    page.page.evaluate("location.hash = 'views'")  # the skip link
    assert page.page.get_by_role("tab", selected=True).inner_text() == "Compare"
    page.page.get_by_role("tab", selected=True).focus()
    page.page.keyboard.press("Home")
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement === document.querySelector('#speak textarea')")
    page.page.keyboard.press("Control+Enter")
    page.await_sound()
    page.page.keyboard.press("Escape")
    page.await_end()


def test_every_control_has_a_name_and_a_small_screen_scrolls_one_way_only(visit: Open, cloning: Running) -> None:
    page = visit(cloning, tapped=False, viewport={"width": 360, "height": 740})
    for view in VIEWS:
        page.page.locator(f"#tab-{view}").click()
        assert page.page.evaluate(NAMELESS) == [], view
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 360, view


def test_colours_can_be_chosen_and_are_remembered(visit: Open, dummy: Running) -> None:
    page = visit(dummy, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(ground)
    page.page.locator("#theme").click()
    page.page.locator("#theme").click()
    dark = page.page.evaluate(ground)
    assert light != dark
    page.page.reload()
    page.page.get_by_role("tab", name="Speak").wait_for()
    assert page.page.evaluate(ground) == dark


def test_files_are_revalidated_and_nothing_else_is_served(dummy: Running) -> None:
    first = dummy.http.get("/web/main.js")
    assert first.headers["content-type"].startswith("text/javascript")
    again = dummy.http.get("/web/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in ("/web/", "/web/../app.py", "/web/%2e%2e/app.py", "/web/nothing.js", "/web/views"):
        assert dummy.http.get(path).status_code == 404


def test_every_module_is_announced_so_that_none_is_waited_for_in_turn() -> None:
    def listed(page: str) -> set[str]:
        return set(re.findall(r'href="/web/([\w/]+\.js)"', (WEB / page).read_text()))

    modules = {path.relative_to(WEB).as_posix() for path in WEB.rglob("*.js")}
    apart = {name for name in modules if name.startswith(("worklets/", "docs/"))}
    assert listed("index.html") == modules - apart - {"main.js"}
    own = {name for name in modules if name.startswith("docs/")} - {"docs/reference.js"}
    assert listed("docs.html") == own | {"element.js", "theme.js"}
