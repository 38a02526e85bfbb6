import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rhapsode.device.pages import PagePool, page_keys

PAGE = 4


def keys_of(*tokens: int) -> list[bytes]:
    return page_keys(np.array(tokens)[:, None], PAGE)


def test_only_whole_pages_have_keys():
    assert [len(keys_of(*range(n))) for n in (0, 3, 4, 7, 8)] == [0, 0, 1, 1, 2]


def test_a_key_covers_everything_before_it():
    assert keys_of(1, 2, 3, 4, 5, 6, 7, 8)[1] != keys_of(9, 2, 3, 4, 5, 6, 7, 8)[1]


def test_equal_placeholders_with_different_content_differ():
    placeholders = np.zeros((PAGE, 3), np.float32)
    spliced = placeholders.copy()
    spliced[2, 1] = 0.5
    assert page_keys(placeholders, PAGE) != page_keys(spliced, PAGE)


def test_columns_that_are_always_the_same_are_left_out_of_brief_positions():
    content = np.arange(6 * PAGE).reshape(2 * PAGE, 3)
    changed = content.copy()
    changed[:, 2] = 0
    keys, same = page_keys(content, PAGE, 2, PAGE), page_keys(changed, PAGE, 2, PAGE)
    assert keys[0] == same[0] != page_keys(content, PAGE)[0]
    assert keys[1] != same[1]  # not a brief one
    changed[0, 1] = 0
    assert keys[0] != page_keys(changed, PAGE, 2, PAGE)[0]


def test_without_content_nothing_is_shared():
    assert page_keys(None, PAGE) == []


def test_a_published_page_is_shared_and_survives_its_owner():
    pool = PagePool(4)
    pages, shared = pool.reserve(2, keys_of(*range(4)))
    assert shared == 0
    pool.publish(pages[0], keys_of(*range(4))[0])
    pool.free(pages)
    assert pool.in_use == 0
    again, shared = pool.reserve(2, keys_of(*range(4)))
    assert shared == 1
    assert again[0] == pages[0]


def test_kept_pages_make_room_when_they_are_needed():
    pool = PagePool(2)
    pages, _ = pool.reserve(2, [])
    pool.publish(pages[0], b"old")
    pool.free(pages)
    assert pool.reserve(2, []) is not None
    assert pool.reserve(1, [b"old"]) is None


def test_too_many_pages_are_refused_and_nothing_is_lost():
    pool = PagePool(3)
    assert pool.reserve(4, []) is None
    assert pool.reserve(3, []) is not None


class Pool(RuleBasedStateMachine):
    """Random requests of random prefixes: no page ever has two owners with different content."""

    def __init__(self):
        super().__init__()
        self.pool = PagePool(8)
        self.held: list[tuple[list[int], list[bytes]]] = []

    @rule(prefix=st.lists(st.integers(0, 1), max_size=12), extra=st.integers(1, 4))
    def join(self, prefix, extra):
        keys = keys_of(*prefix)
        count = len(keys) + extra
        reserved = self.pool.reserve(count, keys)
        if reserved is None:
            assert count > self.pool.total - self.pool.in_use
            return
        pages, shared = reserved
        assert len(pages) == len(set(pages)) == count
        for page, key in list(zip(pages, keys, strict=False))[shared:]:
            self.pool.publish(page, key)
        for other, other_keys in self.held:
            for page in set(pages) & set(other):
                assert keys[pages.index(page)] == other_keys[other.index(page)]
        self.held.append((pages, keys))

    @rule(data=st.data())
    def leave(self, data):
        if self.held:
            pages, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
            self.pool.free(pages)

    @rule(kept=st.integers(0, 3))
    def rest(self, kept):
        self.pool.evict(kept)
        free = {page for start, stop in self.pool.free_runs() for page in range(start, stop)}
        assert free <= set(range(1, self.pool.total + 1))
        assert not free & {page for pages, _ in self.held for page in pages}
        assert self.pool.available - kept <= len(free) <= self.pool.available

    @invariant()
    def pages_in_use_are_those_held(self):
        assert self.pool.in_use == len({page for pages, _ in self.held for page in pages})


TestPool = Pool.TestCase


@pytest.mark.parametrize("pages", [1, 5])
def test_all_pages_come_back(pages):
    pool = PagePool(pages)
    for _ in range(3):
        taken, _ = pool.reserve(pages, [])
        assert sorted(taken) == list(range(1, pages + 1))
        pool.free(taken)


def test_pages_that_were_used_last_are_kept_for_sharing():
    pool, texts = PagePool(9), [keys_of(*range(n, n + PAGE)) for n in range(3)]
    for keys in texts:
        pages, _ = pool.reserve(2, keys)
        pool.publish(pages[0], keys[0])
        pool.free(pages)
    pool.evict(2)
    assert [pool.reserve(2, keys)[1] for keys in texts] == [0, 1, 1]


def test_runs_of_free_pages_lie_between_pages_with_owners():
    pool = PagePool(8)
    pages, _ = pool.reserve(8, [])
    assert pool.free_runs() == []
    pool.free([pages[0], *pages[3:5], pages[7]])
    assert pool.free_runs() == [(1, 2), (4, 6), (8, 9)]
