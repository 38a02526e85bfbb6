from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.voices.cache import CacheStats, ReferenceCache, Remembered, content_key


def made(value: str, size: int = 1):
    return lambda: (value, size)


def never():
    pytest.fail("it was made again")


def test_a_value_is_made_once():
    cache = ReferenceCache(10)
    assert cache.get_or_make(b"a", made("A", 3)) == "A"
    assert cache.get_or_make(b"a", never) == "A"
    assert cache.stats() == CacheStats(hits=1, misses=1, bytes=3, entries=1)


def test_none_is_a_value_like_any_other():
    cache = ReferenceCache(10)
    assert cache.get_or_make(b"a", lambda: (None, 1)) is None
    assert cache.get_or_make(b"a", never) is None


def test_the_value_used_longest_ago_makes_room():
    cache = ReferenceCache(2)
    cache.get_or_make(b"a", made("A"))
    cache.get_or_make(b"b", made("B"))
    cache.get_or_make(b"a", never)
    cache.get_or_make(b"c", made("C"))
    assert cache.get_or_make(b"a", never) == "A"
    assert cache.get_or_make(b"b", made("B again")) == "B again"


def test_a_value_larger_than_the_limit_is_returned_and_not_kept():
    cache = ReferenceCache(5)
    cache.get_or_make(b"small", made("small", 5))
    assert cache.get_or_make(b"large", made("large", 6)) == "large"
    assert cache.get_or_make(b"large", made("made again", 6)) == "made again"
    assert cache.get_or_make(b"small", never) == "small"
    assert cache.stats().bytes == 5


def test_a_negative_size_is_a_mistake():
    cache = ReferenceCache(5)
    with pytest.raises(ValueError, match="-1 bytes"):
        cache.get_or_make(b"a", made("A", -1))
    assert cache.get_or_make(b"a", made("A", 0)) == "A"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12))))
def test_the_limit_holds_after_every_step(steps):
    cache, kept = ReferenceCache(10), {}
    for number, size in steps:
        value = cache.get_or_make(b"%d" % number, lambda size=size: (size, size))
        kept[number] = value
        stats = cache.stats()
        assert 0 <= stats.bytes <= 10
        assert stats.entries <= len(kept)
    assert cache.stats().hits + cache.stats().misses == len(steps)


def test_callers_at_once_share_one_result():
    cache, calls, gate = ReferenceCache(100), [], threading.Event()

    def make():
        calls.append(threading.get_ident())
        gate.wait(5)
        return object(), 1

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(cache.get_or_make, b"a", make) for _ in range(8)]
        while cache.stats().hits < 7:
            time.sleep(0.001)
        gate.set()
        values = {id(answer.result(5)) for answer in answers}
    assert len(calls) == 1
    assert len(values) == 1
    assert cache.stats() == CacheStats(hits=7, misses=1, bytes=1, entries=1)


def test_callers_at_once_share_one_exception_which_is_not_kept():
    cache, calls, gate = ReferenceCache(100), [], threading.Event()

    def make():
        calls.append(1)
        gate.wait(5)
        raise LookupError("no")

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(cache.get_or_make, b"a", make) for _ in range(4)]
        while cache.stats().hits < 3:
            time.sleep(0.001)
        gate.set()
        errors = [answer.exception(5) for answer in answers]
    assert [type(error) for error in errors] == [LookupError] * 4
    assert len(calls) == 1
    assert cache.get_or_make(b"a", made("A")) == "A"


def test_one_key_being_made_holds_up_no_other():
    cache, gate = ReferenceCache(100), threading.Event()

    def slow():
        gate.wait(5)
        return "slow", 1

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cache.get_or_make, b"slow", slow)
        assert cache.get_or_make(b"quick", made("quick")) == "quick"
        assert not waiting.done()
        gate.set()
        assert waiting.result(5) == "slow"


def test_many_threads_on_few_keys_never_see_another_keys_value():
    cache = ReferenceCache(3)

    def ask(number: int) -> bool:
        key = b"%d" % (number % 7)
        return cache.get_or_make(key, lambda: (key, 1)) == key

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(3000)))
    stats = cache.stats()
    assert stats.entries == stats.bytes == 3
    assert stats.hits + stats.misses == 3000


@given(st.lists(st.text() | st.binary()), st.lists(st.text() | st.binary()))
def test_keys_are_equal_only_for_equal_parts(one, other):
    assert (content_key(*one) == content_key(*other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"), [(("ab",), ("a", "b")), (("a",), (b"a",)), (("",), ()), ((b"", b"a"), (b"a", b""))]
)
def test_borders_and_types_count(one, other):
    assert content_key(*one) != content_key(*other)


def test_a_key_takes_any_text():
    assert len(content_key("\ud800")) == 32


def test_equal_samples_are_encoded_once_and_each_encoding_apart():
    cache = ReferenceCache(2 * 12)
    calls = []
    encode = Remembered("doubled", lambda samples: calls.append(1) or samples * 2, cache)
    other = Remembered("negated", lambda samples: -samples, cache)
    one, two = np.ones(3, np.float32), np.full(3, 2, np.float32)
    assert np.array_equal(encode(one), two)
    assert np.array_equal(encode(one.copy()), two)
    assert np.array_equal(other(one), -one)
    assert len(calls) == 1
    encode(two)  # room for two encodings: the first is forgotten
    encode(one)
    assert len(calls) == 3
