"""Faults of a connection's byte stream, like toxiproxy's toxics."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.rules import units
from amqproxy.rules.faults.impairments import Bandwidth, Cutoff, HalfClose, Latency, Reset, Silence, Slicing, SlowClose
from amqproxy.rules.units import byte_size
from amqproxy.rules.verdict import Impairment

Seconds = Annotated[float, units.duration(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]

MAX_SLOW_CLOSE = 3600.0
"""Seconds for which a connection's end can be put off."""

_TO: dict[str, tuple[Peer, ...]] = {"client": (CLIENT,), "server": (SERVER,), "both": (CLIENT, SERVER)}


class StreamFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """Something done to all bytes of a connection on their way `to` a peer."""

    to: Literal["client", "server", "both"] = "both"

    def impairments(self, duration: float | None, by: str) -> tuple[Impairment, ...]:
        """What is to be done to each direction, by the rule of that name."""
        return tuple([replace(self.impairment(peer, duration), by=by) for peer in _TO[self.to]])

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        raise NotImplementedError


class LatencyFault(StreamFault, frozen=True, tag="latency"):
    """Bytes come `delay` seconds later, up to `jitter` more or less."""

    delay: Seconds
    jitter: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Latency(to, duration, self.delay, self.jitter)


class BandwidthFault(StreamFault, frozen=True, tag="bandwidth"):
    """At most `rate` bytes a second, as a number or like "64KiB/s"."""

    rate: int | str

    def __post_init__(self) -> None:
        if not 1 <= self._bytes_per_second < math.inf:
            raise ValueError(".rate: at least one byte a second; to let nothing pass, use timeout")

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Bandwidth(to, duration, self._bytes_per_second)

    @property
    def _bytes_per_second(self) -> float:
        return units.rate(self.rate) if isinstance(self.rate, str) else float(self.rate)


class SlicingFault(StreamFault, frozen=True, tag="slicing"):
    """Bytes come in pieces of `size`, up to `variation` more or fewer, `pause` seconds after one another."""

    size: Annotated[int, units.size(ge=1)]
    variation: Annotated[int, msgspec.Meta(ge=0)] = 0
    pause: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Slicing(to, duration, self.size, self.variation, self.pause)


class TimeoutFault(StreamFault, frozen=True, tag="timeout"):
    """Nothing passes; after `close_after` seconds, if that is not 0, the connection is closed."""

    close_after: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Silence(to, duration, self.close_after)


class ResetFault(StreamFault, frozen=True, tag="reset"):
    """After so many seconds the connection is reset."""

    after: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Reset(to, duration, self.after)


class HalfCloseFault(StreamFault, frozen=True, tag="half_close"):
    """After so many seconds one direction is closed, and the other goes on."""

    after: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return HalfClose(to, duration, self.after)


class SlowCloseFault(StreamFault, frozen=True, tag="slow_close"):
    """The connection's end comes `delay` seconds late."""

    delay: Annotated[float, units.duration(ge=0, le=MAX_SLOW_CLOSE)]

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return SlowClose(to, duration, self.delay)


class LimitDataFault(StreamFault, frozen=True, tag="limit_data"):
    """The connection is closed when so many bytes have passed, as a number or like "64KiB"."""

    octets: int | str

    def __post_init__(self) -> None:
        byte_size(self.octets)

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Cutoff(to, duration, byte_size(self.octets))


AnyStreamFault = (
    LatencyFault
    | BandwidthFault
    | SlicingFault
    | TimeoutFault
    | ResetFault
    | HalfCloseFault
    | SlowCloseFault
    | LimitDataFault
)
