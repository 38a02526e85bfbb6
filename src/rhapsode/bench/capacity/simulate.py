"""A discrete-event simulation of replicas behind one edge."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from rhapsode.bench.capacity.curve import ReplicaCurve
from rhapsode.bench.capacity.edge import SimulatedEdge
from rhapsode.bench.capacity.replica import SimulatedReplica
from rhapsode.bench.capacity.scaler import Scaler, ScalingPlan
from rhapsode.bench.capacity.traffic import Traffic

POLL_S = 0.5
"""How often the edge asks replicas for their load, and the number of replicas is decided."""
MOMENTS = 200
"""Entries of a timeline."""


@dataclass(frozen=True)
class SimulationResult:
    """The service that listeners got, and the replicas that it took."""

    first_s: NDArray[np.float64]
    """From arrival to first audio, of requests that were served, in the order of their arrival."""
    queued_s: NDArray[np.float64]
    refused: int
    with_gap: int
    """Requests with an underrun: their speech took longer to make than to play."""
    ended_s: float
    """When the last request ended."""
    replica_s: float
    busy: float
    """The mean share of places that were taken."""
    timeline: list[tuple[float, int, int]]
    """Moments, each with its time, the number of replicas, and the requests in them."""

    @property
    def served(self) -> int:
        return len(self.first_s)

    @property
    def requests(self) -> int:
        return self.served + self.refused


def simulate(
    curve: ReplicaCurve, traffic: Traffic, scaling: ScalingPlan, max_queue: int, seed: int = 0
) -> SimulationResult:
    """Simulates this traffic to its last sample."""
    return _Simulation(curve, traffic, scaling, max_queue, seed).run()


class _Simulation:
    def __init__(self, curve: ReplicaCurve, traffic: Traffic, scaling: ScalingPlan, max_queue: int, seed: int) -> None:
        self._curve, self._scaling, self._max_queue = curve, scaling, max_queue
        self._at_s, self._audio_s, self._keys = traffic.at_s.tolist(), traffic.audio_s.tolist(), traffic.keys
        self._luck = np.random.default_rng(seed).uniform(size=len(traffic)).tolist()
        self._numbers = count()
        self._replicas: dict[int, SimulatedReplica] = {}
        self._starting_s: list[float] = []
        self._turns: list[tuple[float, int]] = []
        self._due_s: dict[int, float | None] = {}
        self._edge = SimulatedEdge()
        self._changed: set[int] = set()
        self._load = 0
        self._scaler = Scaler(scaling, curve.places)
        self._queued_s: dict[int, float] = {}
        self._first_s: dict[int, float] = {}
        self._refused = self._with_gap = 0
        self._ended_s = self._replica_s = self._slot_s = self._polled_s = 0.0
        self._timeline: list[tuple[float, int, int]] = []
        self._moment_s = traffic.duration_s / MOMENTS

    def run(self) -> SimulationResult:
        for _ in range(self._scaling.least):
            self._add(0.0)
        self._poll(0.0)
        requests = len(self._at_s)
        arrived, poll_s = 0, POLL_S
        while arrived < requests or self._turns:
            arrival_s = self._at_s[arrived] if arrived < requests else np.inf
            turn_s = self._turns[0][0] if self._turns else np.inf
            if poll_s <= arrival_s and poll_s <= turn_s:
                self._poll(poll_s)
                poll_s += POLL_S
            elif arrival_s <= turn_s:
                self._arrive(arrived, arrival_s)
                arrived += 1
            else:
                self._turn(*heapq.heappop(self._turns))
        return self._result()

    def _arrive(self, request: int, now_s: float) -> None:
        number = self._edge.choose(self._keys[request])
        if number is None:
            self._refused += 1
            return
        replica = self._replicas[number]
        self._changed.add(number)
        if not replica.has_place and len(replica.queue) >= self._max_queue:
            self._edge.ended(number)
            self._refused += 1
            return
        self._load += 1
        if replica.has_place:
            self._start(request, number, replica, now_s)
        else:
            replica.queue.append(request)

    def _start(self, request: int, number: int, replica: SimulatedReplica, now_s: float) -> None:
        self._queued_s[request] = now_s - self._at_s[request]
        replica.start(request, self._audio_s[request], self._luck[request], now_s)
        self._schedule(number, replica)

    def _turn(self, now_s: float, number: int) -> None:
        if self._due_s[number] != now_s:
            return  # the pace has changed since
        replica = self._replicas[number]
        begun, ended = replica.turn(now_s)
        for request, heard_s in begun:
            self._first_s[request] = heard_s - self._at_s[request]
        for request in ended:
            self._end(request, number, now_s)
        while replica.queue and replica.has_place:
            self._start(replica.queue.popleft(), number, replica, now_s)
        self._schedule(number, replica)

    def _end(self, request: int, number: int, now_s: float) -> None:
        self._ended_s = now_s
        self._load -= 1
        self._changed.add(number)
        self._edge.ended(number)
        spoken_s = now_s - self._at_s[request] - self._first_s[request]
        self._with_gap += spoken_s > self._audio_s[request]

    def _schedule(self, number: int, replica: SimulatedReplica) -> None:
        self._due_s[number] = due_s = replica.next_s()
        if due_s is not None:
            heapq.heappush(self._turns, (due_s, number))

    def _poll(self, now_s: float) -> None:
        """Updates the loads that the edge knows; adds and removes replicas."""
        self._replica_s += (now_s - self._polled_s) * len(self._replicas)
        self._polled_s = now_s
        while self._starting_s and self._starting_s[0] <= now_s:
            self._starting_s.pop(0)
            self._add(now_s)
        if self._scaling.is_fixed and self._timeline:  # the replicas stay: update only those whose load changed
            self._edge.refresh({number: self._replicas[number].load for number in self._changed})
        else:
            self._scale(now_s, self._load)
            self._edge.poll({n: replica.load for n, replica in self._replicas.items() if not replica.is_leaving})
        self._changed.clear()
        if not self._timeline or now_s >= self._timeline[-1][0] + self._moment_s:
            self._timeline.append((now_s, len(self._replicas), self._load))

    def _scale(self, now_s: float, load: int) -> None:
        if self._scaling.is_fixed:
            return
        staying = [replica for replica in self._replicas.values() if not replica.is_leaving]
        current = len(staying) + len(self._starting_s)
        wanted = self._scaler.decide(now_s, load, current)
        self._starting_s += [now_s + self._scaling.start_s] * (wanted - current)
        for replica in sorted(staying, key=lambda replica: replica.load)[: max(0, current - wanted)]:
            replica.is_leaving = True
        for number in [n for n, replica in self._replicas.items() if replica.is_leaving and not replica.load]:
            self._slot_s += self._replicas.pop(number).busy_s

    def _add(self, now_s: float) -> None:
        self._replicas[next(self._numbers)] = SimulatedReplica(self._curve, now_s)

    def _result(self) -> SimulationResult:
        slot_s = self._slot_s + sum(replica.busy_s for replica in self._replicas.values())
        return SimulationResult(
            first_s=np.array([first_s for _, first_s in sorted(self._first_s.items())]),
            queued_s=np.array([queued_s for _, queued_s in sorted(self._queued_s.items())]),
            refused=self._refused,
            with_gap=self._with_gap,
            ended_s=self._ended_s,
            replica_s=self._replica_s,
            busy=slot_s / (self._replica_s * self._curve.places) if self._replica_s else 0.0,
            timeline=self._timeline,
        )
