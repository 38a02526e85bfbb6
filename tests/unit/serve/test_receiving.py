"""How long a client may take to send something: tried on a clock that stands still."""

from collections.abc import Callable

import pytest

from rhapsode.serve import receiving
from rhapsode.serve.receiving import Receiving

FLOOR = receiving.SLOW_LINK_BYTES_PER_S
LIMIT_S = 20.0


class Timer:
    def __init__(self, at_s: float, call: Callable[[], None]) -> None:
        self.at_s, self.call, self.is_cancelled = at_s, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """The time of an event loop, and what it is to call."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        self._timers.append(Timer(self.now_s + delay_s, call))
        return self._timers[-1]

    def run_to(self, until_s: float) -> None:
        while due := [timer for timer in self._timers if not timer.is_cancelled and timer.at_s <= until_s]:
            first = min(due, key=lambda timer: timer.at_s)
            self._timers.remove(first)
            self.now_s = first.at_s
            first.call()
        self.now_s = until_s


class Connection:
    """A transport that notes when it is reset."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.reset_s: float | None = None
        self.reads = True

    def get_extra_info(self, name: str) -> None:
        return None

    def is_reading(self) -> bool:
        return self.reads

    def abort(self) -> None:
        self.reset_s = self._loop.now_s


def send(pieces: list[tuple[float, int]], until_s: float = 6000.0, *, reads: bool = True) -> float | None:
    """When a connection is reset on which so many bytes arrive at such times, and no further ones."""
    loop = Loop()
    connection, watch = Connection(loop), Receiving(loop, LIMIT_S)  # type: ignore[arg-type]
    connection.reads = reads
    watch.begin(connection)  # type: ignore[arg-type]
    for at_s, size in pieces:
        loop.run_to(at_s)
        if connection.reset_s is not None:
            return connection.reset_s
        watch.add(size)
    loop.run_to(until_s)
    return connection.reset_s


@pytest.mark.parametrize("size", [1, 2**10, 2**16])
def test_a_small_request_has_its_time_and_that_of_a_slow_link(size: int) -> None:
    assert send([(0.0, size)]) == pytest.approx(LIMIT_S + size / FLOOR)


@pytest.mark.parametrize("sent_s", [0.0, 1.0, 60.0])
def test_a_large_upload_whose_last_byte_is_withheld_ends_within_ten_seconds(sent_s: float) -> None:
    megabyte = [(sent_s * part / 40, 2**20) for part in range(40)]
    ended_s = send(megabyte)
    assert ended_s is not None
    assert ended_s - megabyte[-1][0] <= 2 * receiving.WINDOW_S


def test_a_trickle_after_a_large_part_ends_the_upload_too() -> None:
    ended_s = send([(0.0, 2**20), *((float(second), FLOOR // 2) for second in range(1, 600))])
    assert ended_s is not None
    assert ended_s <= 2 * receiving.WINDOW_S


def test_an_upload_at_the_pace_of_a_slow_link_is_never_ended() -> None:
    pieces = [(float(second), FLOOR + 100) for second in range(600)]
    assert send(pieces, until_s=600.0) is None


def test_a_client_that_this_server_does_not_read_is_not_slow() -> None:
    assert send([(0.0, 2**20)], reads=False) is None


def test_nothing_is_ended_after_the_end() -> None:
    loop = Loop()
    connection, watch = Connection(loop), Receiving(loop, LIMIT_S)  # type: ignore[arg-type]
    watch.begin(connection)  # type: ignore[arg-type]
    watch.end()
    loop.run_to(100.0)
    assert connection.reset_s is None
    assert not watch.is_on
