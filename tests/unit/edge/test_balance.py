"""Which replica gets a request: the one that knows the voice, unless it is much busier than the others."""

from collections import Counter
from dataclasses import dataclass

from rhapsode.edge.balance import in_order


@dataclass
class Peer:
    id: str
    load: float = 0.0


def test_without_a_key_the_least_busy_is_first() -> None:
    busy, free = Peer("a", 3), Peer("b", 1)
    assert in_order([busy, free], None) == [free, busy]


def test_a_key_prefers_the_same_replica_whatever_the_order() -> None:
    peers = [Peer(name) for name in "abcd"]
    for key in map(str, range(50)):
        assert in_order(peers, key)[0] is in_order(peers[::-1], key)[0]


def test_keys_spread_over_all_replicas() -> None:
    peers = [Peer(name) for name in "abcd"]
    chosen = Counter(in_order(peers, str(key))[0].id for key in range(4000))
    assert all(800 < count < 1200 for count in chosen.values())


def test_only_the_keys_of_a_replica_that_left_move() -> None:
    peers = [Peer(name) for name in "abcd"]
    for key in map(str, range(200)):
        before = in_order(peers, key)[0]
        after = in_order([peer for peer in peers if peer.id != "d"], key)[0]
        assert after is before or before.id == "d"


def test_a_preferred_replica_that_is_much_busier_is_passed_over() -> None:
    peers = [Peer(name) for name in "abcd"]
    preferred = in_order(peers, "voice")[0]
    preferred.load = 1
    assert in_order(peers, "voice")[0] is preferred
    preferred.load = 10
    assert in_order(peers, "voice")[0] is not preferred
    assert {peer.id for peer in in_order(peers, "voice")} == set("abcd")


def test_one_voice_for_all_requests_still_fills_all_replicas() -> None:
    peers = [Peer(name) for name in "abc"]
    for _ in range(60):
        in_order(peers, "everybody's voice")[0].load += 1
    assert max(peer.load for peer in peers) <= 30
    assert min(peer.load for peer in peers) >= 10
