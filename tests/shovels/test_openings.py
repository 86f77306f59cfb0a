"""Shovels share TLS contexts until a file changes, and wait only for others of the same broker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
import trustme

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.tls_config import ClientTLS
from amqproxy.shovels import openings as module
from amqproxy.shovels.openings import Openings


def test_a_context_is_made_once_until_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    openings, tls = Openings(), ClientTLS(ca=str(file))
    context = openings.context(tls)
    assert openings.context(ClientTLS(ca=str(file))) is context
    assert openings.context(ClientTLS(ca=str(file), verify=False)) is not context
    os.utime(file, ns=(1, 1))
    assert openings.context(tls) is not context
    file.unlink()
    with pytest.raises(ConfigError):
        openings.context(tls)


def test_contexts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CONTEXTS", 2)
    openings = Openings()
    oldest = openings.context(ClientTLS())
    for name in ("a", "b"):
        openings.context(ClientTLS(server_name=name))
    assert openings.context(ClientTLS()) is not oldest


def test_limits_are_of_a_broker() -> None:
    async def main() -> None:
        openings = Openings(1)
        async with openings.limit("a"):
            assert not openings.limit("a").available_tokens
            async with openings.limit("b"):
                pass
        assert openings.limit("a").available_tokens

    trio.run(main)
