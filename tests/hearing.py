"""Decodes what was encoded with PyAV's decoders and by hand, without the project's own code."""

from __future__ import annotations

import io
import struct
import wave

import av
import numpy as np

OPUS_DELAY = 312  # samples at 48 kHz that an Opus encoder puts before the sound
G711 = {"mulaw": "pcm_mulaw", "alaw": "pcm_alaw"}


def hear(data: bytes, fmt: str, channels: int = 1, sample_rate: int = 24_000) -> tuple[np.ndarray, int]:
    """Returns samples `[channels, n]` and their rate; `sample_rate` is that of formats that do not name theirs."""
    if fmt in ("pcm", "l16"):
        return np.frombuffer(data, ">i2" if fmt == "l16" else "<i2").reshape(-1, channels).T / 32768, sample_rate
    if fmt in G711:
        return decoded(G711[fmt], [data], 8_000, channels), 8_000
    if fmt == "opus_packets":
        return decoded("libopus", packets(data), 48_000, channels)[:, OPUS_DELAY:], 48_000
    if fmt == "wav":
        with wave.open(io.BytesIO(data)) as file:
            assert (file.getsampwidth(), file.getnchannels()) == (2, channels)
            raw = file.readframes(10**7)
            return np.frombuffer(raw, "<i2").reshape(-1, channels).T / 32768, file.getframerate()
    container = {"opus": "ogg", "wav_mulaw": "wav", "wav_alaw": "wav"}.get(fmt, fmt)
    with av.open(io.BytesIO(data), format=container) as file:
        resampler = av.AudioResampler(format="fltp")
        frames = [f.to_ndarray() for g in file.decode(audio=0) for f in resampler.resample(g)]
        none = np.zeros((channels, 0), np.float32)  # of less than a sample
        return np.concatenate([none, *frames], axis=1), file.streams.audio[0].sample_rate


def decoded(codec: str, packets: list[bytes], sample_rate: int, channels: int) -> np.ndarray:
    """Returns what a decoder makes of packets, each given to it by itself."""
    context = av.CodecContext.create(codec, "r")
    context.sample_rate, context.layout = sample_rate, {1: "mono", 2: "stereo"}[channels]
    resampler = av.AudioResampler(format="fltp")
    out = [np.zeros((channels, 0), np.float32)]
    for packet in packets:
        for frame in context.decode(av.Packet(packet)) if packet else []:
            out += [f.to_ndarray() for f in resampler.resample(frame)]
    return np.concatenate(out, axis=1)


def packets(data: bytes) -> list[bytes]:
    """Returns the packets of a stream in which each follows its length."""
    found = []
    while data:
        (length,) = struct.unpack(">H", data[:2])
        assert len(data) >= 2 + length
        found.append(data[2 : 2 + length])
        data = data[2 + length :]
    return found
