"""What a listener has read, beside what it would have played, by a clock of the test's own."""

import socket

import pytest

from rhapsode.serve.listener import MOST_PIECES, Listener, unread_bytes
from rhapsode.serve.listeners import LATE_S

RATE = 32_000  # bytes of a second
PIECE_S = 0.08


class Client:
    """A client behind a connection with buffers of a size; what they hold counts as unread."""

    def __init__(self, buffers_s: float) -> None:
        self.now_s = 100.0
        self.room = round(buffers_s * RATE)
        self.unread = 0
        self.listener = Listener("a", lambda: self.unread, clock_s=lambda: self.now_s)
        self.latest_s = 0.0

    def live(self, seconds: float, *, made=float("inf"), read=lambda since_s: 0.0, step_s=0.01) -> None:
        """Lets time pass. Audio is written as fast as it is made and the buffers allow, and read up to `read(t)`."""
        began_s, wrote, had = self.now_s, 0, 0
        while self.now_s < began_s + seconds:
            size = round(PIECE_S * RATE)
            while self.unread + size <= self.room and wrote + size <= made * (self.now_s - began_s + step_s) * RATE:
                self.unread += size
                wrote += size
                self.listener.wrote(size)
                self.listener.sent(PIECE_S)
            self.now_s += step_s
            take = min(self.unread, round(read(self.now_s - began_s) * RATE) - had)
            self.unread -= take
            had += take
            self.latest_s = max(self.latest_s, self.listener.lag_s())


@pytest.mark.parametrize("buffers_s", [0.1, 1, 10])
def test_a_client_that_never_reads_is_late_by_what_would_have_been_played(buffers_s: float) -> None:
    client = Client(buffers_s)
    client.live(1.0)
    assert client.latest_s < LATE_S
    client.live(4.0)
    assert client.latest_s == pytest.approx(min(5.0, buffers_s), abs=0.1)


@pytest.mark.parametrize("buffers_s", [0.3, 2, 30])
@pytest.mark.parametrize("made", [1.0, 20.0])
def test_a_client_that_reads_as_it_plays_is_never_late(buffers_s: float, made: float) -> None:
    client = Client(buffers_s)
    client.live(60, made=made, read=lambda since_s: since_s)
    assert client.latest_s < 0.2


def test_a_client_that_reads_a_second_at_a_time_is_late_by_a_second_at_most() -> None:
    client = Client(2)
    client.live(60, made=5, read=float.__floor__)
    assert client.latest_s < 1.2 < LATE_S


def test_a_client_that_stops_in_the_middle_is_late_when_what_it_had_is_played() -> None:
    client = Client(1e9 / RATE)
    client.live(10, made=3, read=lambda since_s: since_s * 3)
    client.latest_s = 0
    client.live(20, made=3)
    assert client.latest_s < 0.1  # it has 20 s in hand
    client.live(3, made=3)
    assert client.latest_s > LATE_S


def test_nobody_is_late_while_nothing_is_said() -> None:
    client = Client(100)
    client.live(1, read=lambda since_s: since_s)
    client.now_s += 600  # text that arrives late: the player has long run dry
    client.unread = 0
    client.latest_s = 0
    client.listener.wrote(5 * RATE)
    client.listener.sent(5.0)
    client.unread = 5 * RATE
    assert client.listener.lag_s() == pytest.approx(0, abs=0.01)


def test_many_small_pieces_take_little_memory_and_are_counted_all() -> None:
    client = Client(1000)
    for _ in range(10_000):
        client.unread += 10
        client.listener.wrote(10)
        client.listener.sent(0.01)
    assert len(client.listener._pieces) <= MOST_PIECES
    client.now_s += 1000
    assert client.listener.lag_s() == pytest.approx(100)


def test_messages_without_audio_are_no_audio() -> None:
    client = Client(1000)
    for _ in range(100):
        for size, audio_s in ((300, 0.02), (200, 0.0)):  # a packet, and what is told beside it
            client.unread += size
            client.listener.wrote(size)
            if audio_s:
                client.listener.sent(audio_s)
    assert client.listener.lag_s() == pytest.approx(0, abs=0.01)
    client.now_s += 1.0
    client.unread //= 2
    assert client.listener.lag_s() == pytest.approx(0, abs=0.01)
    client.unread = 0
    assert client.listener.lag_s() == pytest.approx(-1.0, abs=0.01)


def test_what_a_kernel_has_not_delivered_counts_as_unread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with socket.create_connection(listening.getsockname()) as client, listening.accept()[0] as served:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            served.setblocking(False)

            class Transport:
                def get_write_buffer_size(self) -> int:
                    return 1000

                def get_extra_info(self, name: str) -> socket.socket:
                    return served

            assert unread_bytes(Transport()) == 1000
            sent = 0
            try:
                while True:
                    sent += served.send(bytes(2**16))
            except BlockingIOError:
                pass
            assert 1000 < unread_bytes(Transport()) <= sent + 1000
        assert unread_bytes(Transport()) == 1000  # closed
