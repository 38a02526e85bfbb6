"""Whose slot is taken, and when."""

from types import SimpleNamespace

from rhapsode.serve.listeners import Listeners


class _Playback:
    def __init__(self, name: str) -> None:
        self.name = name
        self.holds_slot = not name.startswith("done")


class Room:
    """Listeners who are late by so much, and the requests that wait for their slots."""

    def __init__(self, **lags_s: float) -> None:
        self.waiting = 0
        self.taken: list[str] = []
        self._listeners = Listeners(lambda: self.waiting, self._take)
        for name, lag_s in lags_s.items():
            self._listeners._playing[_Playback(name)] = SimpleNamespace(lag_s=lambda lag_s=lag_s: lag_s)

    def _take(self, playback, listener, error) -> None:
        assert error.code == "not_read"
        self.taken.append(playback.name)

    def check(self, waiting: int) -> list[str]:
        self.waiting = waiting
        self._listeners.check()
        return self.taken


def test_nobody_loses_a_slot_that_nobody_waits_for() -> None:
    assert Room(a=60.0, b=3.0).check(waiting=0) == []


def test_the_latest_lose_theirs_first_and_no_more_than_wait() -> None:
    assert Room(a=3.0, b=60.0, c=5.0).check(waiting=2) == ["b", "c"]


def test_who_has_read_what_was_played_loses_nothing_whoever_waits() -> None:
    assert Room(a=1.9, b=-10.0).check(waiting=100) == []


def test_speech_that_is_all_made_has_no_slot_to_lose() -> None:
    assert Room(done=60.0, a=3.0).check(waiting=5) == ["a"]
