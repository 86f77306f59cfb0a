"""tshark as the second engine of a reading, for input that amqproxy does not read itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from amqproxy.capture.pcap import Packet
from amqproxy.capture.stream_events import Event
from amqproxy.capture.warnings import CaptureWarning, OnWarning, WarningKind, ignore_warning
from amqproxy.tshark.decryption import TLSDecryption
from amqproxy.tshark.engine import TsharkMissing, program
from amqproxy.tshark.link_layers import ForeignLinks


class Tshark:
    """A `SecondEngine` for one reading, which starts programs only as needed.

    With a `keylog`, a missing tshark raises `TsharkMissing`; without one, a warning says what it would be needed for,
    and the input stays unread. `is_live` is for live packets, which are not kept waiting.
    """

    def __init__(
        self, notify: OnWarning = ignore_warning, *, keylog: Path | None = None, is_live: bool = False
    ) -> None:
        self._notify = notify
        self._stack = ExitStack()
        self._is_there: bool | None = None
        self._links = ForeignLinks(self._stack, is_live=is_live)
        self._decryption = self._stack.enter_context(TLSDecryption(keylog, is_live=is_live))

    def __enter__(self) -> Tshark:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def packets(self, packets: Iterator[Packet]) -> Iterator[Packet]:
        return self._links.packets(packets) if self._has_engine("the link type of these packets") else packets

    def add_secrets(self, key_log: bytes) -> None:
        if self._has_engine("the TLS sessions of which it has the secrets"):
            self._decryption.add_secrets(key_log)

    @property
    def is_decrypting(self) -> bool:
        return self._decryption.is_active

    def feed(self, events: Iterable[Event]) -> Iterator[Event]:
        return self._decryption.feed(events)

    def finish(self) -> Iterator[Event]:
        return self._decryption.finish()

    def _has_engine(self, purpose: str) -> bool:
        """Whether tshark is available; if not, warn once."""
        if self._is_there is None:
            try:
                self._is_there = bool(program("tshark"))
            except TsharkMissing as missing:
                self._is_there = False
                text = f"tshark would be needed for {purpose}: {missing}"
                self._notify(CaptureWarning(WarningKind.ENGINE, "tshark", -1, text))
        return self._is_there
