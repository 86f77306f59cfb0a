"""Where bytes of whole frames are cut into packets."""

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEARTBEAT_FRAME, encode_frame, encode_method
from amqproxy.amqp091.methods import BY_INDEX, BasicAck, ConnectionSecureOk, ConnectionUpdateSecret
from amqproxy.capture.amqp091.frame_cuts import GROUP, HAS_SECRET, MOST_CUTS, FrameCutter, secret_frame, segments


def body(size: int) -> bytes:
    return encode_frame(BODY, 1, b"b" * size)


def test_packets_end_with_frames() -> None:
    assert segments(body(10) * 3, 100, -1) == [(0, 54, 54)]
    assert segments(body(10) * 3, 40, -1) == [(0, 36, 36), (36, 54, 54)]


def test_a_frame_that_is_too_large_has_packets_of_its_own() -> None:
    assert segments(body(2) + body(100) + body(2), 40, -1) == [
        (0, 10, 10),
        (10, 50, 50),
        (50, 90, 90),
        (90, 128, 128),
    ]


def test_what_is_not_kept_of_a_body_is_at_the_end_of_a_packet() -> None:
    data = HEARTBEAT_FRAME + body(10) + body(3) + body(4)
    assert segments(data, 100, 3) == [(0, 8 + 7 + 3, 8 + 18), (26, 26 + 11 + 7 + 3, 26 + 11 + 12)]
    assert segments(body(100), 40, 50) == [(0, 40, 40), (40, 57, 80), (80, 80, 108)]
    assert segments(body(10), 40, 0) == [(0, 7, 18)]


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=12),
    st.integers(20, 300),
    st.integers(-1, 60),
    st.binary(max_size=9),
)
def test_nothing_is_left_out_between_packets(sizes: list[int], most: int, kept: int, rest: bytes) -> None:
    data = b"".join(map(body, sizes)) + rest
    cuts = segments(data, most, kept)
    assert [cut[0] for cut in cuts] == [0, *(cut[2] for cut in cuts[:-1])][: len(cuts)]
    assert (cuts[-1][2] if cuts else 0) == len(data)
    assert all(start <= end <= stop and 0 < stop - start <= most for start, end, stop in cuts)


def test_the_cuts_of_many_pieces_are_those_of_each() -> None:
    """Also of more pieces, and with more packets, than are looked at without a pause."""
    secret = encode_method(0, ConnectionSecureOk(b"x"))
    pieces = [b"", body(10), body(100) * 3, body(30 * MOST_CUTS), body(100) * 2 * MOST_CUTS, body(300) + secret]
    pieces += [body(size) + body(60) for size in range(2 * GROUP)] + [b"rubbish" * 100]
    for kept in (-1, 20):
        found = FrameCutter(100, kept).find(pieces)
        assert found[5] is HAS_SECRET
        wanted = [segments(piece, 100, kept) for piece in pieces]
        assert [cuts for cuts in found if cuts is not HAS_SECRET] == [
            None if cuts in ([], [(0, len(piece), len(piece))]) else cuts
            for piece, cuts in zip(pieces, wanted, strict=True)
            if secret not in piece
        ]


def test_secrets_are_found_among_other_frames() -> None:
    update = encode_method(0, ConnectionUpdateSecret(b"new", "expired"))
    others = encode_method(1, BasicAck(10)) + encode_frame(BODY, 1, update)
    data = others + update + encode_method(0, ConnectionSecureOk(b"x")) + others
    assert secret_frame(data, 0) == len(others)
    assert secret_frame(data, len(others) + len(update)) == len(others) + len(update)
    assert secret_frame(others, 0) == -1
    assert secret_frame(update[:11], 0) == 0
    assert secret_frame(update[:10], 0) == -1


def test_the_frames_with_secrets_are_those_of_the_methods_that_declare_them() -> None:
    """A recording finds them without decoding: the places of the secrets are known to `_has_secret`."""
    found = {cls for cls in BY_INDEX if secret_frame(encode_method(0, cls()), 0) == 0}
    assert found == {cls for cls in BY_INDEX if cls.secret}
