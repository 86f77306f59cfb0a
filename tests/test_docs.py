"""The state machines are tables; the pictures in docs/states.md are drawn from them, and stay true."""

from collections.abc import Iterable
from pathlib import Path

from amqproxy.amqp010 import transitions as amqp010
from amqproxy.amqp091.transitions import (
    CHANNEL_CLOSING,
    CLIENT,
    CONNECTION_CLOSING,
    HANDSHAKE,
    MAY_CLOSE,
    SERVER,
    ChannelState,
    ConnectionState,
    Peer,
)
from amqproxy.proxy.session.session_state import SESSION_TRANSITIONS

PAGE = Path(__file__).parent.parent / "docs" / "states.md"

Move = tuple[str, Peer, str, str]


def connection_moves() -> Iterable[Move]:
    closed_by = {CLIENT: ConnectionState.CLOSED_BY_CLIENT, SERVER: ConnectionState.CLOSED_BY_SERVER}
    for state, moves in (HANDSHAKE | CONNECTION_CLOSING).items():
        for (sender, name), then in moves.items():
            if then is not state:
                yield state, sender, name, then
    for state in ConnectionState:
        if state in MAY_CLOSE:
            for sender, then in closed_by.items():
                yield state, sender, "connection.close", then


def channel_moves() -> Iterable[Move]:
    yield "[*]", CLIENT, "channel.open", ChannelState.OPENING
    for state, moves in CHANNEL_CLOSING.items():
        for (sender, name), then in moves.items():
            yield state, sender, name, then or "[*]"


def amqp010_connection_moves() -> Iterable[Move]:
    closed_by = {CLIENT: amqp010.ConnectionState.CLOSED_BY_CLIENT, SERVER: amqp010.ConnectionState.CLOSED_BY_SERVER}
    for state, moves in (amqp010.HANDSHAKE | amqp010.CONNECTION_CLOSING).items():
        for (sender, name), then in moves.items():
            yield state, sender, name, then
    for state in amqp010.ConnectionState:
        if state in amqp010.MAY_CLOSE:
            for sender, then in closed_by.items():
                yield state, sender, "connection.close", then


def amqp010_session_moves() -> Iterable[Move]:
    yield "[*]", CLIENT, "session.attach", amqp010.SessionState.ATTACHING_BY_CLIENT
    yield "[*]", SERVER, "session.attach", amqp010.SessionState.ATTACHING_BY_SERVER
    for state, moves in amqp010.ATTACHMENT.items():
        for (sender, name), then in moves.items():
            if then is not state:
                yield state, sender, name, then


def session_picture() -> str:
    arrows = [
        f"    {state} --> {then}: {event}"
        for state, moves in SESSION_TRANSITIONS.items()
        for event, then in moves.items()
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, "```"])


def diagram(moves: Iterable[Move]) -> str:
    """The moves as Mermaid draws them: C is sent by the client, S by the server."""
    arrows = [
        f"    {state.replace(' ', '_')} --> {then.replace(' ', '_')}: {sender[0].upper()} {name}"
        for state, sender, name, then in moves
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, "```"])


def page() -> str:
    return f"""# The states of a connection, of a channel, and of a session

See the [glossary](glossary.md) for the words. Drawn from the tables in `amqproxy/amqp091/transitions.py` and
`amqproxy/proxy/session/session_state.py`. On an arrow, C marks what the client sends and S what the server sends;
`tests/test_docs.py` compares the pictures with the tables.

## Connection

{diagram(connection_moves())}

## Channel

{diagram(channel_moves())}

## Session

One client and the broker that serves it, in the proxy.

{session_picture()}

## AMQP 0-10: connection

From `amqproxy/amqp010/transitions.py`, as is the next.

{diagram(amqp010_connection_moves())}

## AMQP 0-10: session on a channel

{diagram(amqp010_session_moves())}
"""


def test_the_pictures_show_the_tables() -> None:
    assert PAGE.read_text() == page(), "draw them again: python -m tests.test_docs"


if __name__ == "__main__":
    PAGE.write_text(page())
