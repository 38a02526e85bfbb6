"""Where the time of a start goes, as log lines."""

import logging
import threading
import time

from rhapsode import loading
from rhapsode.device import compilations


def fields(caplog) -> list[dict]:
    return [vars(record)["fields"] for record in caplog.records if record.message == "start-up"]


def test_a_step_ends_when_the_next_one_begins(caplog) -> None:
    loading.done()  # of an engine that was built here before
    caplog.set_level(logging.INFO)
    loading.report("weights")
    time.sleep(0.03)
    loading.report("memory")
    loading.done()
    loading.done()  # nothing has begun since
    first, second = fields(caplog)
    assert first["step"] == "'weights'"
    assert 0.03 <= first["s"] < 1
    assert second["step"] == "'memory'"
    assert second["s"] < first["s"]


def test_a_step_says_what_was_captured_in_it(caplog) -> None:
    caplog.set_level(logging.INFO)
    loading.report("start of codec")
    compilations.captured("4x1")
    compilations.spent("eager", 0.25)
    loading.done()
    (found,) = fields(caplog)
    assert (found["graphs"], found["eager_s"]) == (1, 0.25)
    assert "kernels" not in found


def test_steps_of_two_threads_do_not_end_each_other(caplog) -> None:
    caplog.set_level(logging.INFO)
    loading.report("here")
    there = threading.Thread(target=lambda: (loading.report("there"), loading.done()))
    there.start()
    there.join()
    assert [found["step"] for found in fields(caplog)] == ["'there'"]
    loading.done()
    assert [found["step"] for found in fields(caplog)] == ["'there'", "'here'"]


def test_the_age_of_this_process_grows() -> None:
    earlier = loading.process_age_s()
    time.sleep(0.05)
    assert 0 < earlier < loading.process_age_s()
