"""How a session begins, in what the client sends first."""

import pytest
import trio
from trio.testing import MockClock

from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.proxy.dialects import DIALECTS
from amqproxy.proxy.session.opening import Opening, receive_opening, turn_away, with_tls
from amqproxy.proxy.session.session_report import SessionEnd
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import TransportBroken
from tests.proxy.legs import Script

HEADER_0_8 = b"AMQP\x01\x01\x08\x00"


class Chunks:
    """A transport from which these chunks come; None breaks it."""

    def __init__(self, *chunks: bytes | None) -> None:
        self._chunks = list(chunks)

    async def receive(self) -> bytes:
        chunk = self._chunks.pop(0) if self._chunks else b""
        if chunk is None:
            raise TransportBroken("reset by the peer")
        return chunk


@pytest.mark.parametrize("size", [1, 4, 8, 11])
async def test_a_header_in_pieces_and_what_came_with_it(size: int) -> None:
    data = HEADER + b"abc"
    opening = await receive_opening(Chunks(*[data[i : i + size] for i in range(0, len(data), size)]), 1.0)
    assert isinstance(opening, Opening)
    assert (opening.protocol, opening.header, opening.is_opaque) == ("0-9-1", HEADER, False)
    assert data.startswith(opening.data)


@pytest.mark.parametrize(
    ("chunks", "end"),
    [
        ([], SessionEnd("client", 0, "closed before a protocol header", is_abnormal=False, is_probe=True)),
        ([b"AMQ"], SessionEnd("client", 0, "closed before a protocol header")),
        ([b"A", None], SessionEnd("client", 0, "closed before a protocol header: reset by the peer")),
    ],
)
async def test_a_client_that_goes_before_its_header(chunks: list[bytes | None], end: SessionEnd) -> None:
    assert await receive_opening(Chunks(*chunks), 1.0) == end


@pytest.mark.parametrize(
    ("data", "is_seen", "refused"),
    [
        (HEADER, False, False),
        (HEADER, True, False),
        (b"AMQP\x01\x01\x00\x09", True, False),
        (HEADER_0_8, False, False),
        (HEADER_0_8, True, True),
        (b"AMQP\x01\x01\x00\x0a", False, False),
        (b"AMQP\x01\x01\x00\x0a", True, False),
        (b"AMQP\x00\x01\x00\x00", False, False),
        (b"AMQP\x03\x01\x00\x00", False, False),
        (b"GET / HTTP/1.1", False, True),
    ],
)
async def test_which_protocols_are_served(data: bytes, *, is_seen: bool, refused: bool) -> None:
    opening = await receive_opening(Chunks(data), 1.0)
    assert isinstance(opening, Opening)
    assert (
        opening.refusal(is_decoded=opening.protocol in DIALECTS, has_rules=False, is_seen=is_seen) is not None
    ) == refused


def test_a_plain_transport_shows_nothing_of_tls() -> None:
    client = Client(session=1)
    assert with_tls(client, Chunks()) is client


@pytest.mark.parametrize(("data", "refused"), [(HEADER, False), (HEADER_0_8, True), (b"AMQP\x01\x01\x00\x0a", False)])
async def test_which_protocols_rules_can_be_applied_to(data: bytes, *, refused: bool) -> None:
    opening = await receive_opening(Chunks(data), 1.0)
    assert isinstance(opening, Opening)
    assert (
        opening.refusal(is_decoded=opening.protocol in DIALECTS, has_rules=True, is_seen=False) is not None
    ) == refused


@pytest.mark.parametrize(("lines", "seconds"), [([b"more", b""], 0), ([None], 0), ([b"more"], 5)])
async def test_a_stranger_is_turned_away(lines: list[bytes | None], seconds: float, autojump_clock: MockClock) -> None:
    script = Script(lines)
    await turn_away(script, HEADER, timeout=5.0)  # type: ignore[arg-type]
    assert script.told == HEADER
    assert script.ends == ["EOF"]
    assert trio.current_time() == pytest.approx(seconds)
