"""A source that connects again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from amqproxy.control import RequestError
from amqproxy.top.proxy_source import ProxySource
from tests.control.answering import answering


def test_it_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "control"

    async def ask() -> None:
        source = ProxySource(path)
        with pytest.raises(RequestError, match="no amqproxy answers"):
            await source.ask("stats")
        with answering(path, b'{"ok":true,"run":1}\n', b'{"ok":false,"error":"busy","text":"later"}\n', b""):
            assert (await source.ask("stats"))["run"] == 1
            with pytest.raises(RequestError, match="later"):
                await source.ask("stats")
            with pytest.raises(RequestError, match="gone"):
                await source.ask("stats")
        path.unlink()
        with answering(path, b'{"ok":true,"run":2}\n'):
            assert (await source.ask("stats"))["run"] == 2
            await source.aclose()
        await source.aclose()

    asyncio.run(ask())
