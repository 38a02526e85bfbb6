"""SnakeBeta inside other kernels: always in float32, on values that are in registers anyway."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sin_squared(x):
    """`sin(x) ** 2` to 1e-6 for |x| < 1e5.

    Its period is pi, so the rest of a division by pi is all it takes, and that rest is small enough for a short
    polynomial. The library's sine spends as many registers on arguments nobody has.
    """
    periods = (x * 0.3183098861837907 + 12582912.0) - 12582912.0  # rounds to a whole number
    r = (x - periods * 3.140625) - periods * 9.67653589793e-4  # pi in two parts: the first product is exact
    s = r * r
    return s + s * s * (-0.333313535 + s * (0.0443858098 + s * (-0.0031145897 + s * 0.000115091488)))


@triton.jit
def snake(v, frequency, size, channel, ok):
    """`v + size * sin(frequency * v) ** 2` for `v [rows, channels]`, whose columns are these channels."""
    wave = sin_squared(v * tl.load(frequency + channel, mask=ok, other=0.0)[None, :])
    return v + wave * tl.load(size + channel, mask=ok, other=0.0)[None, :]
