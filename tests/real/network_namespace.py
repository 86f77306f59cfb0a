"""A network namespace of its own, in which packets can be dropped. As root."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.real.rabbitmq import ENDS_WITH_US
from tests.real.require import require

TABLE = "inet partition"


class NetworkNamespace:
    """A namespace that has its loopback and nothing else; `close` ends it.

    Python has `os.setns` from 3.12 on only.
    """

    def __init__(self) -> None:
        self._nft = require("nft", package="nftables")
        holder = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"]
        self._holder = subprocess.Popen([*ENDS_WITH_US, *holder], stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"
        self.within = ("nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--")
        """A command that runs another one in the namespace."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this thread create the block's sockets in the namespace."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        inside = os.open(f"/proc/{self._holder.pid}/ns/net", os.O_RDONLY)
        try:
            _enter(inside)
            try:
                yield
            finally:
                _enter(before)
        finally:
            os.close(inside)
            os.close(before)

    def partition(self, port: int) -> None:
        """Drop all packets from and to a port: nobody is told."""
        rules = f"type filter hook input priority 0; tcp sport {port} drop; tcp dport {port} drop;"
        self._run_nft(f"table {TABLE} {{ chain input {{ {rules} }}\n}}")

    def heal(self) -> None:
        """Let all packets pass again."""
        self._run_nft(f"delete table {TABLE}")

    def _run_nft(self, commands: str) -> None:
        subprocess.run([*self.within, self._nft, commands], check=True)

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()


def _enter(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0):
        raise OSError(ctypes.get_errno(), "setns")
