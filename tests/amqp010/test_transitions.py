"""The tables of who may send what."""

import subprocess
import sys

import pytest

from amqproxy.amqp010.methods import BY_NAME
from amqproxy.amqp010.transitions import (
    ATTACHES,
    ATTACHMENT,
    CONNECTION_CLOSING,
    HANDSHAKE,
    HAS_CHANNELS,
    MAY_CLOSE,
    SENDERS,
    ConnectionState,
    SessionState,
)
from amqproxy.peer import CLIENT, SERVER, Peer

TABLES = (HANDSHAKE, CONNECTION_CLOSING, ATTACHMENT)
MOVES = [(sender, name) for table in TABLES for moves in table.values() for sender, name in moves]


@pytest.mark.parametrize(("sender", "name"), sorted(set(MOVES)))
def test_every_move_is_a_control_that_its_sender_may_send(sender: Peer, name: str) -> None:
    if not name.endswith("protocol-header"):
        assert sender in SENDERS[name]


def test_every_state_has_its_moves_and_can_be_reached() -> None:
    assert set(HANDSHAKE) | set(CONNECTION_CLOSING) == set(ConnectionState)
    assert not set(HANDSHAKE) & set(CONNECTION_CLOSING)
    assert set(ATTACHMENT) == set(SessionState)
    reached = {ConnectionState.NEW, ConnectionState.CLOSED_BY_CLIENT, ConnectionState.CLOSED_BY_SERVER}
    for table in (HANDSHAKE, CONNECTION_CLOSING):
        reached |= {state for moves in table.values() for state in moves.values()}
    assert reached == set(ConnectionState)
    begins = {SessionState.ATTACHING_BY_CLIENT, SessionState.ATTACHING_BY_SERVER}
    assert begins | {state for moves in ATTACHMENT.values() for state in moves.values()} == set(SessionState)


def test_either_side_may_close_once_they_have_agreed_on_the_version() -> None:
    assert {ConnectionState.NEW, ConnectionState.GREETED}.isdisjoint(MAY_CLOSE)
    assert HAS_CHANNELS <= MAY_CLOSE


def test_each_response_is_sent_by_the_partner() -> None:
    for name, method in BY_NAME.items():
        for response in method.responses:
            assert {peer.other for peer in SENDERS[name]} & SENDERS[response], name


@pytest.mark.parametrize("name", BY_NAME)
def test_everything_has_a_sender(name: str) -> None:
    assert SENDERS[name]


def test_either_peer_may_send_all_of_the_class_session() -> None:
    of_sessions = {name for name in BY_NAME if name.startswith("session.")}
    assert of_sessions > ATTACHES
    assert all(SENDERS[name] == {CLIENT, SERVER} for name in of_sessions)


@pytest.mark.parametrize("table", [ATTACHMENT, CONNECTION_CLOSING])
def test_it_looks_the_same_from_both_sides(
    table: dict[ConnectionState, dict[tuple[Peer, str], ConnectionState]],
) -> None:
    def mirrored(state: ConnectionState) -> str:
        swap = {"client": "server", "server": "client"}
        return " ".join(swap.get(word, word) for word in str(state).split())

    by_name = {str(state): {(str(s), n): str(to) for (s, n), to in moves.items()} for state, moves in table.items()}
    for state, moves in table.items():
        assert by_name[mirrored(state)] == {(str(s.other), n): mirrored(to) for (s, n), to in moves.items()}


def test_the_senders_of_all_are_known_whichever_module_is_imported_first() -> None:
    script = "from amqproxy.amqp010.transitions import SENDERS; print(len(SENDERS))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) == len(BY_NAME)
