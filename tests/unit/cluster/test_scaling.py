"""How many replicas a load needs."""

from types import SimpleNamespace

import pytest

from rhapsode.cluster.scaling import LoadPolicy, replicas_for


@pytest.mark.parametrize(
    ("load", "capacity", "expected"), [(0, 8, 0.0), (4, 8, 1.0), (4.1, 8, 1.025), (16, 8, 4.0), (3, 1, 6.0)]
)
def test_the_load_is_kept_at_the_target(load: float, capacity: float, expected: float) -> None:
    assert replicas_for(load, [capacity, capacity], target=0.5) == pytest.approx(expected)


def test_what_waits_for_a_first_replica_counts() -> None:
    nothing = SimpleNamespace(aggregated_metrics={}, total_queued_requests=1)
    assert LoadPolicy(target=0.5)(nothing)[0] > 0


def test_open_connections_do_not_count() -> None:
    idle = SimpleNamespace(
        aggregated_metrics={"load": {"a": 0.0}, "capacity": {"a": 8.0}}, total_queued_requests=0, total_num_requests=50
    )
    assert LoadPolicy(target=0.5)(idle)[0] == 0
