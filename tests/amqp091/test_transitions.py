"""The tables of who may send what. Senders and replies are compared in test_specification."""

import pytest

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.amqp091.transitions import (
    ANSWERS,
    CHANNEL_CLOSING,
    CONNECTION_CLOSING,
    HANDSHAKE,
    HAS_CHANNELS,
    MAY_CLOSE,
    REPLIES,
    SENDERS,
    ChannelState,
    ConnectionState,
    Peer,
)

MOVES = [
    (sender, name)
    for table in (HANDSHAKE, CONNECTION_CLOSING, CHANNEL_CLOSING)
    for moves in table.values()
    for sender, name in moves
]


@pytest.mark.parametrize(("sender", "name"), sorted(set(MOVES)))
def test_every_move_is_a_method_that_its_sender_may_send(sender: Peer, name: str) -> None:
    if name != "protocol-header":
        assert sender in SENDERS[name]


def test_every_state_has_its_moves_and_can_be_reached() -> None:
    assert set(HANDSHAKE) | set(CONNECTION_CLOSING) == set(ConnectionState)
    assert not set(HANDSHAKE) & set(CONNECTION_CLOSING)
    assert set(CHANNEL_CLOSING) == set(ChannelState)
    reached = {ConnectionState.NEW, ConnectionState.CLOSED_BY_CLIENT, ConnectionState.CLOSED_BY_SERVER}
    for table in (HANDSHAKE, CONNECTION_CLOSING):
        reached |= {state for moves in table.values() for state in moves.values()}
    assert reached == set(ConnectionState)
    assert {state for moves in CHANNEL_CLOSING.values() for state in moves.values()} == {
        None,
        *set(ChannelState) - {ChannelState.OPENING},
    }


def test_either_side_may_close_from_the_first_method_on() -> None:
    assert {ConnectionState.NEW, ConnectionState.GREETED}.isdisjoint(MAY_CLOSE)
    assert HAS_CHANNELS <= MAY_CLOSE


def test_what_is_answered_is_answered_by_the_other_side() -> None:
    for request, replies in REPLIES.items():
        for reply in replies:
            assert ANSWERS[reply] == request
            assert any(sender.other in SENDERS[reply] for sender in SENDERS[request])


@pytest.mark.parametrize("name", BY_NAME)
def test_every_method_has_a_sender(name: str) -> None:
    assert SENDERS[name]


@pytest.mark.parametrize("table", [CHANNEL_CLOSING, CONNECTION_CLOSING])
def test_closing_looks_the_same_from_both_sides(
    table: dict[ConnectionState, dict[tuple[Peer, str], ConnectionState | None]],
) -> None:
    def mirrored(state: ConnectionState | None) -> str:
        name = str(state)
        swap = {"client": "server", "server": "client"}
        return " ".join(swap.get(word, word) for word in name.split())

    by_name = {str(state): {(str(s), n): str(to) for (s, n), to in moves.items()} for state, moves in table.items()}
    for state, moves in table.items():
        if "closed by" in str(state):
            assert by_name[mirrored(state)] == {(str(s.other), n): mirrored(to) for (s, n), to in moves.items()}
