"""A stage looks at its rows when something has changed, and otherwise now and then."""

import pytest

from rhapsode.engine import changes
from rhapsode.engine.changes import Changes


class World:
    now_s, count = 10.0, 0


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setattr(changes, "clock_s", lambda: made.now_s)
    return made


def test_the_first_look_is_always_worth_it(world):
    assert Changes(lambda: world.count, 0.002).look()


def test_nothing_is_looked_at_twice(world):
    seen = Changes(lambda: world.count, 0.002)
    assert [seen.look() for _ in range(3)] == [True, False, False]


def test_a_change_of_either_side_is_looked_at_once(world):
    seen = Changes(lambda: world.count, 0.002)
    seen.look()
    world.count += 1
    assert [seen.look(), seen.look()] == [True, False]
    seen.note()
    assert [seen.look(), seen.look()] == [True, False]


def test_time_alone_is_looked_at_now_and_then(world):
    seen = Changes(lambda: world.count, 0.002)
    looks = 0
    for _ in range(100):
        looks += seen.look()
        world.now_s += 0.0001
    assert 5 <= looks <= 6
