"""Files of certificates that are replaced are read again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
import trustme
from structlog.testing import capture_logs

from amqproxy.app import certificate_watch
from amqproxy.app.certificate_watch import watch_certificates
from amqproxy.configuration.tls_config import ClientTLS, ServerTLS
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.proxy.upstream import Dialer
from amqproxy.sockets.tls import files_of, server_context


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A certificate and its key."""
    made = [tmp_path / "tls.crt", tmp_path / "tls.key"]
    for file in made:
        file.write_text("first")
    return made


async def test_what_has_changed_is_read_again(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_watch, "INTERVAL", 0.001)
    renewed = trio.Event()
    looks = 0

    def found() -> list[str]:
        nonlocal looks
        looks += 1
        if looks == 2:
            files[0].write_text("the second")
        return [str(file) for file in files]

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_certificates, found, renewed.set)
            await renewed.wait()
            nursery.cancel_scope.cancel()
    assert looks >= 2


async def test_certificates_that_expire_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once a day, though the files are looked at more often; a key is not one."""
    monkeypatch.setattr(certificate_watch, "INTERVAL", 0.001)
    authority, now = trustme.CA(), datetime.now(UTC)
    files = []
    for name, days in {"past": -2.5, "soon": 3.5, "later": 30}.items():
        issued = authority.issue_cert(
            "localhost", not_before=now - timedelta(days=10), not_after=now + timedelta(days=days)
        )
        files.append(tmp_path / f"{name}.crt")
        issued.cert_chain_pems[0].write_to_path(str(files[-1]))
        issued.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        files.append(tmp_path / f"{name}.key")
    looks = 0

    def found() -> list[str]:
        nonlocal looks
        looks += 1
        return [str(each) for each in files]

    with trio.fail_after(60), capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_certificates, found, lambda: None)
            while looks < 5 or len(log) < 2:  # noqa: ASYNC110
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
    shown = [(each["log_level"], Path(each["file"]).name, each["days"]) for each in log]
    assert shown == [("error", "past.crt", 2.5), ("warning", "soon.crt", 3.5)]


def test_which_files_there_are(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    certificate, key, ca = (str(tmp_path / name) for name in ("tls.crt", "tls.key", "ca.crt"))
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(certificate)
    authority.cert_pem.write_to_path(ca)
    assert files_of(server_context(ServerTLS(certificate=certificate, key=key))) == (certificate, key)
    assert files_of(server_context(ServerTLS(certificate=certificate, key=key, client_ca=ca)))[2] == ca
    secured = UpstreamConfig(address="localhost:5671", tls=ClientTLS(ca=ca, certificate=certificate, key=key))
    assert Dialer(secured, 1.0).tls_files == (ca, certificate, key)
    assert Dialer(UpstreamConfig(address="localhost:5672"), 1.0).tls_files == ()
