from __future__ import annotations

import numpy as np
import pytest

from hearing import OPUS_DELAY, decoded, packets
from rhapsode.audio.encode import Encoder, encode
from rhapsode.audio.packets import packets_of
from rhapsode.types import Clip


@pytest.mark.parametrize("length", [1, 479, 480, 24_000, 24_001])
@pytest.mark.parametrize("whole", [True, False])
def test_there_are_as_many_packets_as_the_sound_and_the_encoder_s_delay_need(noise, length, whole):
    if whole:
        data = encode(Clip(noise(length), 24_000), "opus_packets")
    else:
        encoder = Encoder("opus_packets", 24_000)
        data = encoder.write(noise(length)) + encoder.close()
    expected = -(-(length * 2 + OPUS_DELAY) // 960)
    assert len(packets(data)) == expected


def test_each_packet_alone_is_20_ms_of_sound(tone, peak_hz):
    found = packets(encode(Clip(tone(440, 1.0), 24_000), "opus_packets"))
    for packet in found:
        assert decoded("libopus", [packet], 48_000, 1).shape == (1, 960)
    sound = decoded("libopus", found, 48_000, 1)[0, OPUS_DELAY:]
    assert peak_hz(sound[4_800:43_200], 48_000) == pytest.approx(440, abs=5)


def test_every_write_returns_whole_packets(noise):
    encoder, samples = Encoder("opus_packets", 24_000), noise(24_000)
    pieces = [encoder.write(samples[:, i : i + 777]) for i in range(0, 24_000, 777)]
    streamed = [packet for piece in [*pieces, encoder.close()] for packet in packets_of(piece)]
    assert streamed == packets(encode(Clip(samples, 24_000), "opus_packets"))


def test_two_channels_go_into_one_packet(tone, peak_hz):
    sound = decoded("libopus", packets(encode(Clip(tone(440, 0.5, channels=2), 24_000), "opus_packets")), 48_000, 2)
    assert [peak_hz(channel[4_800:19_200], 48_000) for channel in sound] == [
        pytest.approx(440, abs=8),
        pytest.approx(880, abs=8),
    ]


def test_nothing_said_is_no_packet():
    assert Encoder("opus_packets", 24_000).close() == b""
    assert encode(Clip(np.zeros((1, 0), np.float32), 24_000), "opus_packets") == b""
