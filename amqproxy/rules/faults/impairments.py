"""Impairments of a byte stream, regardless of its content: each kind is a subclass of `Impairment`.

They are values; the `delay_line` carries them out.
"""

from __future__ import annotations

from amqproxy.rules.verdict import Impairment


class Latency(Impairment, frozen=True):
    """Delay bytes by `delay` seconds, varied by up to `jitter`; their order is kept."""

    delay: float = 0.0
    jitter: float = 0.0


class Bandwidth(Impairment, frozen=True):
    """Pass at most `rate` bytes a second."""

    rate: float = 0.0


class Slicing(Impairment, frozen=True):
    """Split bytes into pieces of `size`, varied by up to `variation`, with `pause` seconds after each."""

    size: int = 1
    variation: int = 0
    pause: float = 0.0


class Silence(Impairment, frozen=True):
    """Pass nothing; after `close_after` seconds, if not 0, close the connection and lose the queued bytes."""

    close_after: float = 0.0


class Reset(Impairment, frozen=True):
    """Reset the connection after `after` seconds, as a crash does."""

    after: float = 0.0


class HalfClose(Impairment, frozen=True):
    """Close this direction after `after` seconds, and keep the other open."""

    after: float = 0.0


class SlowClose(Impairment, frozen=True):
    """Delay the end of the connection by `delay` seconds."""

    delay: float = 0.0


class Cutoff(Impairment, frozen=True):
    """Close the connection after `size` more bytes."""

    size: int = 0
