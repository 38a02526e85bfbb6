"""A replica simulated frame by frame: slow, and simple enough to be right."""

from collections import deque
from dataclasses import dataclass
from math import inf

FRAME_S = 0.1


@dataclass
class Client:
    """Sends a request, pauses when it is complete, and sends the next one."""

    next_s: float
    frames: list[int]
    pauses_s: list[float]

    def send(self) -> "Spoken":
        sent_s, self.next_s = self.next_s, inf
        return Spoken(self, sent_s, self.frames.pop(0))


@dataclass
class Spoken:
    """What became of a request."""

    client: Client
    sent_s: float
    frames: int
    made: int = 0
    heard_s: float | None = None
    head: int = 0
    ends_s: float = 0.0


def speak(clients: list[Client], steps_s: list[float], heads: list[int], tail: int = 1) -> list[Spoken]:
    """Speaks what these clients send. Both lists are by the number of requests, and as long as there are places."""
    now_s, places = 0.0, len(steps_s) - 1
    rows, joining, queue, done = [], [], deque(), []
    while True:
        if not rows:
            waiting = [client for client in clients if client.frames]
            if not waiting:
                return done
            first = min(waiting, key=lambda client: client.next_s)
            now_s, rows = first.next_s, [first.send()]
        number = len(rows)
        for one in arrivals(clients, now_s + steps_s[number]):
            (joining if number + len(joining) < places else queue).append(one)
        now_s += steps_s[number]
        for one in rows:
            one.made += 1
            if one.heard_s is None and one.made >= min(heads[number], one.frames):
                one.heard_s, one.head = now_s, min(heads[number], one.frames)
            if one.made == one.frames + tail:
                one.ends_s = now_s
                one.client.next_s = now_s + one.client.pauses_s.pop(0)
                done.append(one)
        rows, joining = [one for one in rows if not one.ends_s] + joining, []
        while queue and len(rows) + len(joining) < places:  # too late for the frame that begins now
            joining.append(queue.popleft())
        if not rows:
            rows, joining = joining[:1], joining[1:]  # there is no frame to wait for


def arrivals(clients: list[Client], until_s: float) -> list[Spoken]:
    due = [client for client in clients if client.frames and client.next_s < until_s]
    return [client.send() for client in sorted(due, key=lambda client: client.next_s)]
