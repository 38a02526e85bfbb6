"""What clients hold in memory: a share each, and unfinished uploads make room for others."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from rhapsode.errors import Busy
from rhapsode.serve.budget import Account, Budget

LIMIT, SHARE = 160, 80


class Uploads:
    """A budget on a clock of its own, and the uploads that it has ended."""

    def __init__(self, limit: int = LIMIT, share: int = SHARE) -> None:
        self.now_s = 0.0
        self.budget = Budget(limit, "tests", share, lambda: self.now_s)
        self.ended: list[str] = []

    def begin(self, client: str, size: int, name: str = "") -> Account:
        account = self.budget.open(client, lambda: self.ended.append(name or client))
        account.hold(size)
        return account


@pytest.fixture
def uploads() -> Iterator[Uploads]:
    return Uploads()


def test_what_is_closed_is_given_back(uploads: Uploads) -> None:
    for _ in range(10):
        account = uploads.begin("a", SHARE)
        account.finish()
        account.close()
        account.close()
    assert not uploads.ended
    assert not uploads.budget._clients


def test_finished_uploads_are_never_ended_and_leave_others_their_share(uploads: Uploads) -> None:
    uploads.begin("a", SHARE).finish()
    with pytest.raises(Busy):
        uploads.begin("a", 1)
    uploads.begin("b", SHARE).finish()
    with pytest.raises(Busy):
        uploads.begin("c", 1)
    assert not uploads.ended


@pytest.mark.parametrize("honest", ["a", "e"])
def test_four_large_uploads_that_never_end_refuse_nobody(uploads: Uploads, honest: str) -> None:
    for _ in range(4):
        with suppress(Busy):
            uploads.begin("a", 39)
    uploads.now_s += 0.5
    uploads.begin(honest, 2).finish()
    uploads.now_s += 1
    uploads.begin(honest, 39).finish()


@pytest.mark.parametrize("honest", ["a0", "b"])
def test_many_small_silent_uploads_refuse_nobody_for_long(uploads: Uploads, honest: str) -> None:
    for number in range(LIMIT // 2):
        uploads.begin(f"a{number}", 2)
    large = uploads.budget.open(honest, lambda: None)
    with pytest.raises(Busy):
        large.hold(40)
    uploads.now_s += 1.1
    large.hold(40)
    assert len(uploads.ended) in (19, 20)


def test_the_client_that_holds_most_makes_room_first(uploads: Uploads) -> None:
    uploads.begin("small", 30)
    uploads.begin("large", 70)
    uploads.begin("middle", 60)
    uploads.begin("new", 20)
    assert uploads.ended == ["large"]


def test_the_upload_that_has_waited_longest_makes_room_first(uploads: Uploads) -> None:
    first = uploads.begin("a", 39, "first")
    uploads.begin("a", 39, "second")
    first.hold(40)
    uploads.begin("a", 2, "third")
    assert uploads.ended == ["second"]


def test_uploads_of_one_client_that_all_progress_do_not_end_each_other(uploads: Uploads) -> None:
    uploads.begin("a", 40)
    uploads.begin("a", 39)
    with pytest.raises(Busy):
        uploads.begin("a", 10)
    assert not uploads.ended


def test_a_client_that_holds_more_ends_nobody_s_upload(uploads: Uploads) -> None:
    uploads.begin("a", 50)
    uploads.begin("b", 50)
    greedy = uploads.begin("c", 50)
    with pytest.raises(Busy):
        greedy.hold(70)
    assert not uploads.ended


def test_an_upload_that_was_ended_holds_nothing_more(uploads: Uploads) -> None:
    ended = uploads.begin("a", 40)
    uploads.begin("a", 40)
    uploads.begin("a", 1)
    assert len(uploads.ended) == 1
    with pytest.raises(Busy):
        ended.hold(41)
    ended.close()


def test_an_account_that_cannot_be_ended_stays(uploads: Uploads) -> None:
    uploads.budget.open("a").hold(70)
    uploads.now_s += 10
    with pytest.raises(Busy):
        uploads.begin("a", 20)


def test_uploads_that_trickle_refuse_nobody_behind_the_same_address(uploads: Uploads) -> None:
    size = 2**22
    uploads = Uploads(4 * size, 2 * size)
    trickling = [uploads.begin("nat", size - 100, "trickle") for _ in range(2)]
    steady = uploads.begin("other", 2**17, "steady")
    for step in range(1, 24):
        uploads.now_s += 0.2
        steady.hold((step + 1) * 2**17)
        for account in trickling:
            account.hold(account.held + 2)
    honest = uploads.begin("nat", 1, "honest")
    for piece in range(1, 9):
        honest.hold(piece * size // 8)
        uploads.now_s += 0.2
    assert uploads.ended == ["trickle"]
    assert not steady.is_slow
