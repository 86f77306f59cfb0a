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
"""Longest delay of a connection's end, in seconds."""

_TO: dict[str, tuple[Peer, ...]] = {"client": (CLIENT,), "server": (SERVER,), "both": (CLIENT, SERVER)}


class StreamFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """A fault of all bytes of a connection in transit `to` a peer."""

    to: Literal["client", "server", "both"] = "both"

    def impairments(self, duration: float | None, by: str) -> tuple[Impairment, ...]:
        """Return the impairment of each direction, in the name of the rule `by`."""
        return tuple([replace(self.impairment(peer, duration), by=by) for peer in _TO[self.to]])

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        raise NotImplementedError


class LatencyFault(StreamFault, frozen=True, tag="latency"):
    """Delay bytes by `delay` seconds, varied by up to `jitter`."""

    delay: Seconds
    jitter: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Latency(to, duration, self.delay, self.jitter)


class BandwidthFault(StreamFault, frozen=True, tag="bandwidth"):
    """Pass at most `rate` bytes a second, as a number or like "64KiB/s"."""

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
    """Split bytes into pieces of `size`, varied by up to `variation`, `pause` seconds apart."""

    size: Annotated[int, units.size(ge=1)]
    variation: Annotated[int, msgspec.Meta(ge=0)] = 0
    pause: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Slicing(to, duration, self.size, self.variation, self.pause)


class TimeoutFault(StreamFault, frozen=True, tag="timeout"):
    """Pass nothing; close the connection after `close_after` seconds, if not 0."""

    close_after: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Silence(to, duration, self.close_after)


class ResetFault(StreamFault, frozen=True, tag="reset"):
    """Reset the connection after `after` seconds."""

    after: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return Reset(to, duration, self.after)


class HalfCloseFault(StreamFault, frozen=True, tag="half_close"):
    """Close one direction after `after` seconds, and keep the other open."""

    after: Seconds = 0.0

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return HalfClose(to, duration, self.after)


class SlowCloseFault(StreamFault, frozen=True, tag="slow_close"):
    """Delay the end of the connection by `delay` seconds."""

    delay: Annotated[float, units.duration(ge=0, le=MAX_SLOW_CLOSE)]

    def impairment(self, to: Peer, duration: float | None) -> Impairment:
        return SlowClose(to, duration, self.delay)


class LimitDataFault(StreamFault, frozen=True, tag="limit_data"):
    """Close the connection after `octets` bytes, a number or like "64KiB"."""

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
