"""What an operator may do to one session: close it, pause it or resume it, all of it or one channel."""

from __future__ import annotations

from amqproxy.control.request import CloseSession, Pause, Resume
from amqproxy.control.request_error import RequestError
from amqproxy.proxy.session.session import Session


def close(session: Session, request: CloseSession) -> None:
    """Close a connection or one of its channels. `RequestError` with `not-open` or `no-channel` where it cannot be."""
    if request.channel is None:
        session.close(request.text)
    else:
        _check_channel(session, request.channel)
        session.close_channel(request.channel, request.text)


def pause(session: Session, request: Pause) -> None:
    """Let what the client sends wait. `RequestError` with `not-open` or `no-channel` where it cannot."""
    if request.channel is None:
        _check_open(session)
    else:
        _check_channel(session, request.channel)
    session.pause(request.channel)


def resume(session: Session, request: Resume) -> None:
    """Let go on what has waited. `RequestError` with `not-paused` where nothing was to wait."""
    number = request.channel
    if number is None:
        if not session.is_paused:
            raise RequestError("not-paused", f"session {session.number} is not paused")
    elif number not in session.paused_channels:
        raise RequestError("not-paused", f"channel {number} of session {session.number} is not paused")
    session.resume(number)


def _check_open(session: Session) -> None:
    if not session.is_open:
        raise RequestError("not-open", f"session {session.number} has no open connection")


def _check_channel(session: Session, number: int) -> None:
    _check_open(session)
    if not session.has_open_channel(number):
        raise RequestError("no-channel", f"session {session.number} has no open channel {number}")
