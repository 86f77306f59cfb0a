"""The traffic of network interfaces as dumpcap writes it: a pcapng stream until it is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from types import TracebackType

from amqproxy.tshark.engine import interface_names, live_command

PORTS = (5672, 5671)
"""The ports of AMQP, and of AMQP over TLS."""

PATIENCE = 5.0
"""Seconds within which dumpcap has to end after it was told to."""

_RIGHTS = (
    "run it as root; or let dumpcap capture for you: `setcap cap_net_raw,cap_net_admin+eip $(command -v dumpcap)`, "
    "and on Debian be in the group wireshark"
)
_USUAL = ("Capturing on", "Packets", "File:")
"""Beginnings of lines that dumpcap always prints."""
_CAPTURED = re.compile(r"Packets captured: (\d+)")
_DROPPED = re.compile(r"Packets received/dropped on interface .*?: \d+/(\d+)")


def port_filter(ports: Sequence[int]) -> str:
    """Return the capture filter for TCP on these ports; empty, for all traffic, if there are none."""
    return " or ".join(f"tcp port {port}" for port in ports)


class CannotCapture(Exception):
    """The capture failed to start; the text names the reason and a remedy."""


class LiveCapture:
    """A context manager that reads like a file: it returns captured bytes, and waits for more.

    `on_started` is called once packets are captured.
    """

    def __init__(
        self,
        interfaces: Sequence[str],
        capture_filter: str = "",
        on_started: Callable[[LiveCapture], None] = lambda capture: None,
    ) -> None:
        self.name = ", ".join(interfaces)
        self.filter = capture_filter
        self.captured = self.dropped = 0
        """Packets, known once the capture has ended."""
        self.trouble = ""
        """The reason for which dumpcap ended on its own, if that was an error."""
        command = live_command(interfaces, capture_filter)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed on the way out
        # In a session of its own, dumpcap does not receive the Ctrl-C meant for amqproxy.
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
        )
        self._has_any = self._is_stopped = False
        self._on_started = on_started

    def __enter__(self) -> LiveCapture:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def stop(self) -> None:
        """Stop capturing; packets captured so far can still be read."""
        self._is_stopped = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def read(self, size: int) -> bytes:
        """Return captured bytes as soon as there are some; empty at the end.

        `CannotCapture` if nothing can be captured.
        """
        assert self._process.stdout is not None
        data: bytes = os.read(self._process.stdout.fileno(), size)
        if not data:
            self._ended()
        elif not self._has_any:
            self._has_any = True
            self._on_started(self)
        return data

    def _ended(self) -> None:
        """Evaluate the exit code and the messages of dumpcap."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._errors.seek(0)
        words = self._errors.read().decode("utf-8", "replace")
        self.captured = sum(map(int, _CAPTURED.findall(words)))
        self.dropped = sum(map(int, _DROPPED.findall(words)))
        if code and not self._has_any:
            raise self._failure(words)
        if code and not self._is_stopped:
            self.trouble = _reason(words)

    def _failure(self, words: str) -> CannotCapture:
        reason = _reason(words)
        text = words.lower()
        if "permission" in text or "not permitted" in text:
            remedy = _RIGHTS
        elif "capture filter" in text:
            remedy = "see `man pcap-filter`"
        else:
            remedy = f"name one of: {', '.join(interface_names())}"
        return CannotCapture(f"{self.name}: {reason}: {remedy}")


def _reason(words: str) -> str:
    """Return the reason for dumpcap's end from its messages."""
    lines = [line.strip() for line in words.splitlines()]
    said = [line.removeprefix("dumpcap: ") for line in lines if line and not line.startswith(_USUAL)]
    return next((line.rstrip(".") for line in said if "cap_set_proc" not in line), "dumpcap ended without a reason")
