"""With which code sessions of AMQP 0-10 end on their channels, as counters have it."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionException
from amqproxy.amqp010.controls import SessionDetach, SessionDetached
from amqproxy.amqp010.methods import Method
from amqproxy.peer import Peer

NORMAL_CODE = 200
"""What a detach counts as that no exception came before."""


class SessionEnds:
    """One connection's. An exception comes before the detach that it causes; a detach is counted, its answer is not."""

    __slots__ = ("_detaching", "_failures")

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}
        self._detaching: set[int] = set()

    @property
    def are_awaited(self) -> bool:
        """Is a detach to come, or the answer to one?"""
        return bool(self._failures or self._detaching)

    def code(self, sender: Peer, channel: int, method: Method) -> int | None:
        """The code with which `sender` ends a session, if it does with this."""
        match method:
            case ExecutionException():
                self._failures[channel] = method.error_code or 0
                return None
            case SessionDetach():
                if channel in self._detaching:  # both at once
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
