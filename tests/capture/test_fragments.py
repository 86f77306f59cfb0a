"""IP fragments, put together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.capture import fragments as module
from amqproxy.capture.fragments import Fragments


def test_the_last_fragment_may_come_first() -> None:
    fragments = Fragments()
    assert fragments.add(b"k", 8, b"b" * 8, True) is None
    assert fragments.pending == 1
    assert fragments.add(b"k", 0, b"a" * 8, False) == b"a" * 8 + b"b" * 8
    assert (fragments.pending, fragments.lost) == (0, 0)


def test_packets_do_not_mix() -> None:
    fragments = Fragments()
    assert fragments.add(b"k", 0, b"a" * 8, False) is None
    assert fragments.add(b"l", 8, b"b" * 8, True) is None
    assert fragments.add(b"l", 0, b"c" * 8, False) == b"c" * 8 + b"b" * 8


def test_the_first_copy_is_taken() -> None:
    fragments = Fragments()
    fragments.add(b"k", 0, b"a" * 16, False)
    assert fragments.add(b"k", 8, b"b" * 16, True) == b"a" * 16 + b"b" * 8
    fragments.add(b"k", 0, b"a" * 8, False)
    fragments.add(b"k", 0, b"x" * 8, False)
    assert fragments.add(b"k", 8, b"b", True) == b"a" * 8 + b"b"


def test_too_many_packets_at_once_lose_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PACKETS", 3)
    fragments = Fragments()
    for number in range(5):
        fragments.add(bytes([number]), 0, b"a" * 8, False)
    assert (fragments.pending, fragments.lost) == (3, 2)
    assert fragments.add(b"\4", 8, b"b", True) == b"a" * 8 + b"b"


def test_a_packet_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    fragments = Fragments()
    assert fragments.add(b"k", 65_528, b"a" * 8, True) is None
    assert (fragments.pending, fragments.lost) == (0, 1)
    monkeypatch.setattr(module, "MAX_PIECES", 4)
    for piece in range(5):
        fragments.add(b"l", piece * 8, b"a" * 8, False)
    assert (fragments.pending, fragments.lost) == (0, 2)


@given(st.binary(min_size=1, max_size=400), st.data())
def test_any_cut_in_any_order_comes_together(whole: bytes, data: st.DataObject) -> None:
    cuts = sorted({0, *data.draw(st.lists(st.integers(0, len(whole) // 8).map(lambda n: n * 8), max_size=8))})
    pieces = [
        (start, whole[start:stop], stop == len(whole))
        for start, stop in zip(cuts, [*cuts[1:], len(whole)], strict=True)
    ]
    pieces = [piece for piece in pieces if piece[1]]
    order = data.draw(st.permutations(pieces + data.draw(st.lists(st.sampled_from(pieces), max_size=3))))
    fragments = Fragments()
    found = [fragments.add(b"k", *piece) for piece in order]
    assert whole in found
