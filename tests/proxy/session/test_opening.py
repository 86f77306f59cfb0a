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

    tls = None

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
    ("data", "unread_refusal", "reason"),
    [
        (HEADER, "", None),
        (HEADER, "no", None),
        (b"AMQP\x01\x01\x00\x09", "no", None),
        (HEADER_0_8, "", None),
        (HEADER_0_8, "no", "the client speaks 0-8, not AMQP 0-9-1, which the proxy does not decode: no"),
        (b"AMQP\x01\x01\x00\x0a", "no", None),
        (b"AMQP\x00\x01\x00\x00", "", None),
        (b"AMQP\x03\x01\x00\x00", "", None),
        (
            b"AMQP\x03\x01\x00\x00",
            "no",
            "the client speaks 1.0 (SASL), not AMQP 0-9-1, which the proxy does not decode: no",
        ),
        (b"GET / HTTP/1.1", "", "the client speaks HTTP, not AMQP 0-9-1"),
    ],
)
async def test_which_protocols_are_served(data: bytes, unread_refusal: str, reason: str | None) -> None:
    opening = await receive_opening(Chunks(data), 1.0)
    assert isinstance(opening, Opening)
    end = opening.refusal(is_decoded=opening.protocol in DIALECTS, unread_refusal=unread_refusal)
    assert (end.reason if end else None) == reason


def test_a_plain_transport_shows_nothing_of_tls() -> None:
    client = Client(session=1)
    assert with_tls(client, Chunks()) is client


@pytest.mark.parametrize(("lines", "seconds"), [([b"more", b""], 0), ([None], 0), ([b"more"], 5)])
async def test_a_stranger_is_turned_away(lines: list[bytes | None], seconds: float, autojump_clock: MockClock) -> None:
    script = Script(lines)
    await turn_away(script, HEADER, timeout=5.0)  # type: ignore[arg-type]
    assert script.told == HEADER
    assert script.ends == ["EOF"]
    assert trio.current_time() == pytest.approx(seconds)
