"""An operator's control of one session or one of its channels: close, pause, resume."""

from __future__ import annotations

from amqproxy.control.request import CloseSession, Pause, Resume
from amqproxy.control.request_error import RequestError
from amqproxy.proxy.session.session import Session


def close(session: Session, request: CloseSession) -> None:
    """Close a connection or one of its channels. `RequestError` with `not-open` or `no-channel` if it is not open."""
    if request.channel is None:
        session.close(request.text)
    else:
        _check_channel(session, request.channel)
        session.close_channel(request.channel, request.text)


def pause(session: Session, request: Pause) -> None:
    """Hold back the client's frames, of all channels or of one. `RequestError` with `not-open` or `no-channel`."""
    if request.channel is None:
        _check_open(session)
    else:
        _check_channel(session, request.channel)
    session.pause(request.channel)


def resume(session: Session, request: Resume) -> None:
    """Forward the frames held back since `pause`. `RequestError` with `not-paused` if nothing was paused."""
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
