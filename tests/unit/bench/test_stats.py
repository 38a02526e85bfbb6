import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.bench.stats import percentile, ratio, summarize


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_are_numpys(values, q):
    assert percentile(values, q) == pytest.approx(np.percentile(values, q), abs=1e-6)


def test_a_summary_of_known_values():
    found = summarize([float(i) for i in range(101)])
    assert (found.n, found.mean, found.min, found.p50, found.p95, found.p99, found.max) == (101, 50, 0, 50, 95, 99, 100)


def test_a_percentile_needs_a_value():
    with pytest.raises(ValueError, match="at least one value"):
        percentile([], 50)


def test_twice_as_slow_is_a_certain_ratio_of_two():
    fast = [10.0, 10.1, 9.9, 10.2, 9.8]
    found = ratio(fast, [2 * value for value in fast])
    assert found.value == pytest.approx(2, rel=1e-3)
    assert 1.9 < found.low <= found.value <= found.high < 2.1
    assert found.certain


def test_noise_is_not_a_difference():
    one, other = [10.0, 12.0, 8.0, 11.0, 9.0], [9.5, 12.5, 8.2, 10.0, 9.9]
    assert not ratio(one, other).certain


def test_the_same_samples_give_the_same_spread():
    assert ratio([1.0, 2.0, 3.0], [2.0, 3.0, 5.0]) == ratio([1.0, 2.0, 3.0], [2.0, 3.0, 5.0])


def test_there_is_no_ratio_to_zero():
    assert ratio([0.0, 0.0], [1.0]) is None


def test_means_see_what_medians_do_not():
    assert ratio([0.0, 0.0, 0.3], [0.0, 0.0, 0.6]) is None
    assert ratio([0.0, 0.0, 0.3], [0.0, 0.0, 0.6], mean=True).value == pytest.approx(2)
