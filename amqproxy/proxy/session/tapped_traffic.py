"""Display of a session's traffic to taps: its frames, its gaps, and its state for taps that join late."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec
import trio

from amqproxy.proxy.session.dialect_parts import DialectParts
from amqproxy.proxy.session.farewell import Farewell
from amqproxy.proxy.session.relay import Relay
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.tap_budget import TapShare
from amqproxy.taps.tap import UNKNOWN_JOINS, Tap, offset_of
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot, RequestSnapshot

CHANNELS_SHOWN_AT_ONCE = 1_000
"""Channels of a snapshot that is shown in the turn in which the last of them is read."""


class TappedTraffic(DialectParts):
    """The base of `Traffic` that shows passing frames to the report's tap.

    A tap that may miss frames is shown as many as the tap budget allows; one that joins, or has missed frames, is shown
    the state of the connection before the next chunk.
    """

    def __init__(self, report: SessionReport, services: SessionServices) -> None:
        self._report = report
        self._services = services
        self._relays: tuple[Relay, ...] = ()
        self._drain: Farewell | None = None
        self._joins = UNKNOWN_JOINS
        self._state_read: trio.Event | None = None
        self._changes = 0
        self._tap_share = None if services.tap_budget is None else TapShare(services.tap_budget)
        self.interceptor: Any = None
        """The passage, while it is one with rules."""

    def apply_tap(self) -> None:
        """Start showing passing frames to the report's tap, or stop if it has none."""
        if self._tap_share is not None:
            self._tap_share.is_hidden = False
        self._joins = UNKNOWN_JOINS
        self._show_or_hide()

    def _show_or_hide(self) -> None:
        self._changes += 1
        self.passage.is_tapped = self._is_tapped
        for relay in self._relays:
            relay.before_chunk = self._show_state if self._is_tapped else None
        if self._relays:
            self.passage.ask_for_frames()

    async def _show_state(self) -> bool:
        """Show the tap the state of the connection, if it has joined since it was shown this session's last frames.

        Return whether it was shown, which takes at least a turn of the loop: many sessions may have to show theirs.
        """
        if self._state_read is not None:
            await self._state_read.wait()
            return True
        tap = self._report.tap
        if tap is None or tap.joins == self._joins or not self._has_state:
            return False
        self._state_read = trio.Event()
        try:
            await self._services.state_turns.wait()
            if tap is self._report.tap and self._has_state:
                with self._report.contained("state not shown"):
                    await self._read_state(tap)
        finally:
            self._state_read.set()
            self._state_read = None
        return True

    async def _read_state(self, tap: Tap) -> None:
        """Show the tap the state of the connection, unless anything but frames of the peers changes it meanwhile."""
        self._joins, changes = tap.joins, self._changes
        ts_ns, turns = time.time_ns(), self._services.state_turns
        reading, requests = self._open_state(offset_of(ts_ns))
        channels: list[ChannelSnapshot] = []
        encoded: list[bytes] = []
        end = time.perf_counter() + turns.quantum
        for channel in reading:
            channels.append(channel)
            encoded.append(msgspec.msgpack.encode(channel))
            if time.perf_counter() > end:
                if not await self._is_unchanged(changes):
                    return
                end = time.perf_counter() + turns.quantum
        # putting 10,000 encoded channels together, and copying them for each tap, takes 2 ms
        if len(channels) > CHANNELS_SHOWN_AT_ONCE and not await self._is_unchanged(changes):
            return
        snapshot = self._snapshot_of(ts_ns, channels, requests)
        if encoded:
            snapshot.keep_encoded(encoded)
        self._report.note_snapshot(snapshot)

    async def _is_unchanged(self, changes: int) -> bool:
        """Wait for the next turn; if the state has changed meanwhile, it has to be read again."""
        await self._services.state_turns.wait()
        if self._changes == changes:
            return True
        self._joins = UNKNOWN_JOINS
        return False

    @property
    def _is_tapped(self) -> bool:
        """Whether passing frames are currently shown to the report's tap."""
        return self._report.tap is not None and not (self._tap_share is not None and self._tap_share.is_hidden)

    def _keep_to_share(self, share: TapShare, began: float) -> None:
        """Pause showing frames when the session exceeds its tap share, and resume once it has time again.

        A pass-through shows raw bytes, which takes no measurable time.
        """
        tap = self._report.tap
        if tap is None or self.interceptor is None:
            return
        if share.is_hidden:
            if tap.may_miss_frames and not share.may_show(began):
                return
            self.show_gap()
        elif tap.may_miss_frames and share.spend(began, time.perf_counter()):
            share.is_hidden = True
            share.frames_before = self._frames
        else:
            return
        self._show_or_hide()

    def show_gap(self) -> None:
        """End a pause in showing frames, if there is one, and tell the tap how many frames it has missed."""
        share = self._tap_share
        if share is not None and share.is_hidden:
            share.is_hidden = False
            self._joins = UNKNOWN_JOINS
            self._report.note_gap(max(1, self._frames - share.frames_before))

    @property
    def _frames(self) -> int:
        """Number of frames that both peers have sent."""
        return sum(leg.reader.frames for leg in self.legs.values())

    @property
    def _has_state(self) -> bool:
        """Whether the state of the connection can be told, as taps know it, between two frames.

        It cannot before the handshake has ended, while the connection is closing or cannot be read, and while replies
        to the client are about to be sent.
        """
        return (
            self._drain is None
            and not self.passage.is_over
            and self.is_open
            and self.is_readable
            and not self._has_unsent_replies
        )

    def snapshot(self, ts_ns: int) -> ConnectionSnapshot | None:
        """Return the state of the connection after all frames that taps have been shown; `None` if it has none now.

        Commands that rules delay or hold, and those queued behind them, come after the snapshot. Call `recall` first.
        """
        if not self._has_state:
            return None
        return self._snapshot_of(ts_ns, *self._open_state(offset_of(ts_ns)))

    def _snapshot_of(
        self, ts_ns: int, channels: Iterable[ChannelSnapshot], requests: tuple[RequestSnapshot, ...]
    ) -> ConnectionSnapshot:
        blocked_since = self._report.blocked_since
        blocked_ns = None if blocked_since is None else int((trio.current_time() - blocked_since) * 1e9)
        asked = self.client_requests
        declarations, left_out = ((), 0) if asked is None else asked.declarations(self._report.number)
        return ConnectionSnapshot(
            ts_ns=ts_ns,
            protocol=self.PROTOCOL,
            handshake=self._handshake_facts(),
            blocked_since_ns=None if blocked_ns is None else ts_ns - blocked_ns,
            channels=tuple(channels),
            requests=requests,
            declarations=declarations,
            declarations_left_out=left_out,
        )
