"""What can be done to bytes on their way, regardless of their meaning: each kind is a subclass of `Impairment`.

They are values; the `delay_line` carries them out.
"""

from __future__ import annotations

from amqproxy.rules.verdict import Impairment


class Latency(Impairment, frozen=True):
    """Bytes come `delay` seconds later, and up to `jitter` more or less; their order stays."""

    delay: float = 0.0
    jitter: float = 0.0


class Bandwidth(Impairment, frozen=True):
    """At most `rate` bytes a second."""

    rate: float = 0.0


class Slicing(Impairment, frozen=True):
    """Bytes come in pieces of `size`, and up to `variation` more or fewer, with `pause` seconds after each."""

    size: int = 1
    variation: int = 0
    pause: float = 0.0


class Silence(Impairment, frozen=True):
    """Nothing passes. After `close_after` seconds the connection is closed, if that is not 0; what waited is lost."""

    close_after: float = 0.0


class Reset(Impairment, frozen=True):
    """After so many seconds the connection is torn down, as by a crash."""

    after: float = 0.0


class HalfClose(Impairment, frozen=True):
    """After so many seconds this direction is closed; the other goes on."""

    after: float = 0.0


class SlowClose(Impairment, frozen=True):
    """The end of the connection comes `delay` seconds later than it was."""

    delay: float = 0.0


class Cutoff(Impairment, frozen=True):
    """The connection is closed when `size` more bytes have passed."""

    size: int = 0
