"""The file of a drain: a capture, or JSON lines."""

from __future__ import annotations

from pathlib import Path

from amqproxy.workbench.drain import Drain
from amqproxy.workbench.message_capture import MessageCapture
from amqproxy.workbench.message_line import line_of

CAPTURES = (".pcap", ".pcapng")
"""Suffixes of captures; other files are JSON lines."""


def drain_into(path: Path, queue: str, vhost: str, *, is_dry_run: bool) -> Drain:
    """Return a drain into a new file, in the form that its name tells; raise `MoveFailed`."""
    if path.suffix in CAPTURES:
        capture = MessageCapture(queue, vhost)
        return Drain(path, capture.encode, begin=capture.begin(), is_dry_run=is_dry_run)
    return Drain(path, lambda message: line_of(message, queue).to_json() + b"\n", is_dry_run=is_dry_run)
