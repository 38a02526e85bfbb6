from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.marking.payload import EPOCH, HOUR_BITS, PAYLOAD_BITS, Payload, deployment_id


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**HOUR_BITS - 1))
def test_a_payload_comes_back_from_its_bits(deployment, hour):
    bits = Payload(deployment, hour).bits()
    assert bits.shape == (PAYLOAD_BITS,)
    assert Payload.from_bits(bits) == Payload(deployment, hour)


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**HOUR_BITS - 1), st.integers(0, PAYLOAD_BITS - 1))
def test_one_wrong_bit_is_noticed(deployment, hour, place):
    bits = Payload(deployment, hour).bits()
    bits[place] ^= 1
    assert Payload.from_bits(bits) is None


def test_a_payload_says_the_hour_and_the_deployment():
    moment = datetime(2026, 11, 15, 20, 41, tzinfo=UTC)
    payload = Payload.at("radio", moment)
    assert payload.time == datetime(2026, 11, 15, 20, tzinfo=UTC)
    assert payload.is_from("radio")
    assert not payload.is_from("television")


@pytest.mark.parametrize("moment", [EPOCH - timedelta(days=1), EPOCH + timedelta(days=366 * 40)])
def test_a_clock_that_is_wrong_by_decades_still_gives_a_payload(moment):
    assert Payload.from_bits(Payload.at("radio", moment).bits()) is not None


def test_the_id_of_a_name_never_changes():
    assert deployment_id("rhapsode") == 0x378F
