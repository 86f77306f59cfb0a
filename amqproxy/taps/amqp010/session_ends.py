"""Codes with which 0-10 sessions end on their channels, for counters."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionException
from amqproxy.amqp010.controls import SessionDetach, SessionDetached
from amqproxy.amqp010.methods import Method
from amqproxy.peer import Peer

NORMAL_CODE = 200
"""Code of a detach without a preceding exception."""


class SessionEnds:
    """Session ends of one connection. An exception precedes the detach it causes; a detach counts, its answer not."""

    __slots__ = ("_detaching", "_failures")

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}
        self._detaching: set[int] = set()

    @property
    def are_awaited(self) -> bool:
        """Whether a detach after an exception, or the answer to a detach, is still due."""
        return bool(self._failures or self._detaching)

    def code(self, sender: Peer, channel: int, method: Method) -> int | None:
        """Return the code with which `sender` ends a session by this method; `None` if it does not end one."""
        match method:
            case ExecutionException():
                self._failures[channel] = method.error_code or 0
                return None
            case SessionDetach():
                if channel in self._detaching:  # the detaches of both peers crossed
                    return None
                self._detaching.add(channel)
                return self._failures.pop(channel, NORMAL_CODE)
            case SessionDetached():
                if channel in self._detaching:
                    self._detaching.remove(channel)
                    return None
                return self._failures.pop(channel, method.code or NORMAL_CODE)
            case _:
                return None
