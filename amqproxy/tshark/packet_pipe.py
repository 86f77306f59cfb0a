"""A concurrent tshark process: packets in, a row of fields for each out, in the same order."""

from __future__ import annotations

import queue
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from struct import pack
from types import TracebackType

from amqproxy.capture.warnings import CaptureError

ETHERNET = 1
MAX_PACKET_BYTES = 262_144
"""Largest packet that tshark accepts; longer ones are truncated."""

_SECTION = pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
_NANOSECONDS = pack("<HHB3xI", 9, 1, 9, 0)
_TLS_KEY_LOG = 0x544C534B


class PacketPipe:
    """Runs `command`, which writes one line per packet: the requested fields, separated by tabs.

    A context manager; leaving it ends tshark.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._links: dict[int, int] = {}
        self._rows: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed on the way out
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._write(_SECTION)

    def __enter__(self) -> PacketPipe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            if file is not None:
                self._close(file)

    def send(self, ts_ns: int, data: bytes, link_type: int = ETHERNET, original_length: int = 0) -> None:
        """Send tshark a packet; blocks while its input is full."""
        number = self._links.get(link_type)
        if number is None:
            number = self._links[link_type] = len(self._links)
            self._write(_block(1, pack("<HxxI", link_type, 0) + _NANOSECONDS))
        kept = data[:MAX_PACKET_BYTES]
        original = max(original_length, len(data))
        head = pack("<IIIII", number, ts_ns >> 32 & 0xFFFFFFFF, ts_ns & 0xFFFFFFFF, len(kept), original)
        self._write(_block(6, head + kept))

    def send_secrets(self, key_log: bytes) -> None:
        """Send tshark secrets of TLS sessions, in the format of SSLKEYLOGFILE."""
        self._write(_block(10, pack("<II", _TLS_KEY_LOG, len(key_log)) + key_log))

    def finish(self) -> None:
        """Signal the end of the packets to tshark."""
        if self._process.stdin is not None:
            self._close(self._process.stdin)

    def row(self, seconds: float | None = None) -> list[str] | None:
        """Return the next row; None if there is none within `seconds`. Without a limit, wait as long as necessary."""
        try:
            row = self._rows.get(timeout=seconds) if seconds != 0 else self._rows.get_nowait()
        except queue.Empty:
            return None
        if row is None:
            raise self._ended()
        return row

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._rows.put(line.decode("utf-8", "replace").rstrip("\r\n").split("\t"))
        self._rows.put(None)

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def _ended(self) -> CaptureError:
        """Return the error for a premature end of tshark."""
        self._process.kill()
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line for line in self._errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
        reason = f"it ended with {code}: {lines[-1]}" if lines else f"it ended with {code}"
        return CaptureError("tshark", 0, reason, "see whether it runs by itself: `tshark --version`")

    @staticmethod
    def _close(file: object) -> None:
        try:
            file.close()  # type: ignore[attr-defined]
        except OSError:
            return


def _block(kind: int, body: bytes) -> bytes:
    padded = body + bytes(-len(body) % 4)
    length = len(padded) + 12
    return pack("<II", kind, length) + padded + pack("<I", length)
