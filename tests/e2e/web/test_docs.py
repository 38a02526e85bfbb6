"""The API reference at /docs, from our own files."""

from collections.abc import Callable

from e2e.serve.running import Running
from e2e.web.browsing import Visit

Open = Callable[..., Visit]


def test_the_reference_lists_every_operation_and_asks_nobody_else(visit: Open, dummy: Running) -> None:
    page = visit(dummy, tapped=False, view=None)  # requests to other hosts fail the test
    page.page.goto(f"{dummy.url}/docs")
    shown = page.page.locator("details.operation")
    shown.first.wait_for()
    document = dummy.http.get("/openapi.json").json()
    assert shown.count() == sum(len(methods) for methods in document["paths"].values())
    speak = shown.filter(has_text="/v1/audio/speech").filter(has_text="Speak").first
    speak.locator("summary").click()
    fields = speak.locator("table").first.locator("td code").all_inner_texts()
    assert {"input", "voice", "speed", "endless"} <= set(fields)
    assert "0.25 to 4" in speak.inner_text()
    assert "Never stop: what a runaway looks like." in speak.inner_text()
    assert "429" in speak.inner_text()
    policy = dummy.http.get("/docs").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


def test_an_icon_is_there_for_those_who_ask_for_the_old_name(dummy: Running) -> None:
    assert dummy.http.get("/favicon.ico").headers["content-type"] == "image/svg+xml"
