"""Sessions as the control socket lists them."""

import re
from pathlib import Path

import msgspec

from amqproxy.control.session_entries import MOST_TEXT, connection_entry, shown_text
from tests.control.fake_sessions import opened

PAGE = Path(__file__).parent.parent.parent / "docs" / "control.md"
BLOCK = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def test_a_connection() -> None:
    async with opened() as proxy:
        proxy.session.connected_at = 1000.5
        sent = len(proxy.stage.client.said), len(proxy.stage.broker.said)
        assert connection_entry(proxy.session) == {
            "session": 1,
            "connection": "c:1-p:2",
            "connected_at": 1000.5,
            "state": "open",
            "user": "guest",
            "vhost": "/",
            "mechanism": "PLAIN",
            "tls": False,
            "tls_subject": "",
            "product": "",
            "product_version": "",
            "platform": "",
            "name": "",
            "upstream": "",
            "channel_max": 2047,
            "frame_max": 131072,
            "heartbeat": 60,
            "blocked": False,
            "channels": 2,
            "consumers": 0,
            "bytes": {"client": sent[0], "server": sent[1]},
        }
        await proxy.stage.play("<< connection.blocked")
        assert connection_entry(proxy.session)["blocked"] is True


async def test_the_page_shows_every_key() -> None:
    [shown] = [each for each in BLOCK.findall(PAGE.read_text()) if '"tls_subject"' in each]
    async with opened() as proxy:
        assert set(msgspec.json.decode(shown)) == set(connection_entry(proxy.session))


async def test_redactions_hold_here_too() -> None:
    async with opened('name = "redact"\naction = "redact"\nfields = ["virtual_host"]') as proxy:
        assert connection_entry(proxy.session)["vhost"] == "***"


def test_texts_are_bounded_and_can_be_encoded() -> None:
    assert shown_text("x" * 5000) == "x" * MOST_TEXT
    assert shown_text("a\udcff") == "a\\udcff"
