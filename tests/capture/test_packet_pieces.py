"""Packets in pieces: the same blocks, whatever is copied and whatever stays where it is."""

from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.packet_pieces import COPIED_BYTES, ROOM, PacketPieces
from amqproxy.capture.pcapng_writer import INBOUND, packet, packet_options
from amqproxy.capture.synthetic_tcp import CLIENT, SERVER, SyntheticTCP
from tests.capture.building import address
from tests.example_count import example_count

ENDS = [
    (Endpoint(address("10.0.0.1"), 40000), Endpoint(address("10.0.0.2"), 5672)),
    (Endpoint(address("fd00::1"), 40000), Endpoint(address("fd00::2"), 5672)),
]
NOW = 1_795_283_220_123_456_789


@settings(max_examples=example_count(50))
@given(
    st.sampled_from(ENDS),
    st.lists(
        st.tuples(
            st.sampled_from([CLIENT, SERVER]),
            st.one_of(st.integers(0, 20), st.sampled_from([COPIED_BYTES - 1, COPIED_BYTES, 60_000])),
            st.integers(0, 9),
            st.sampled_from(["", "why", "x" * ROOM]),
            st.booleans(),
        ),
        max_size=30,
    ),
)
def test_pieces_are_the_packets_one_behind_the_other(
    ends: tuple[Endpoint, Endpoint], sent: list[tuple[int, int, int, str, bool]]
) -> None:
    made, tcp, same = PacketPieces(), SyntheticTCP(*ends, 7), SyntheticTCP(*ends, 7)
    taken: list[bytes | memoryview] = []
    expected = b""
    for number, (sender, size, missing, comment, is_taken) in enumerate(sent):
        data = b"abc" + b"d" * size + b"e" * missing
        options = packet_options(INBOUND, (comment,))
        made.add_data(1, NOW + number, tcp, sender, data, 3, 3 + size, len(data), options)
        empty = size + missing == 0
        header = same.acknowledge(sender) if empty else same.data(sender, size + missing)
        expected += b"".join(packet(1, NOW + number, header, data[3 : 3 + size], missing, options))
        closing = tcp.reset(sender)[0][1]
        made.add(0, NOW, closing, options)
        expected += b"".join(packet(0, NOW, closing, b"", 0, options))
        if is_taken:
            taken += made.take()
            assert (made.size, made.count) == (0, 0)
            assert len(expected) == sum(map(len, taken))
    taken += made.take()
    assert b"".join(taken) == expected
