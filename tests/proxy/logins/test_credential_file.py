"""Credentials in files that other programs replace."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from amqproxy.proxy.logins import credential_file
from amqproxy.proxy.logins.credential import Credential, CredentialFailed, CredentialSource
from amqproxy.proxy.logins.credential_file import CredentialFile, FixedCredential
from amqproxy.rules.rewriting.secret import Secret
from tests.proxy.logins.attempts import until
from tests.tokens.issuer import Issuer


def replace(path: Path, text: str) -> None:
    """As other programs do, by another file in its place."""
    (path.parent / "new").write_text(text)
    (path.parent / "new").replace(path)


async def test_a_fixed_one_stays() -> None:
    credential = Credential("proxy", Secret("tulip"))
    source: CredentialSource = FixedCredential(credential)
    assert await source.current() == credential
    source.subscribe(lambda _: None)()


async def test_a_password_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential_file, "INTERVAL", 0.005)
    path = tmp_path / "password"
    replace(path, "tulip\n")
    source = CredentialFile("main", "proxy", str(path), is_token=False)
    got: list[Credential] = []
    source.subscribe(got.append)
    assert await source.current() == Credential("proxy", Secret("tulip"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        replace(path, "rose\n")
        await until(lambda: got)
        assert await source.current() == got[0] == Credential("proxy", Secret("rose"))
        replace(path, "")
        await until(lambda: source.fault == f"{path} is empty")
        assert await source.current() == got[0]
        nursery.cancel_scope.cancel()
    assert len(got) == 1


async def test_a_token_is_read_again_and_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, issuer: Issuer
) -> None:
    monkeypatch.setattr(credential_file, "INTERVAL", 0.005)
    path = tmp_path / "token"
    now = 1000.0
    source = CredentialFile("blue", "", str(path), is_token=True, now=lambda: now)
    with pytest.raises(CredentialFailed, match="token cannot be read: No such file"):
        await source.current()
    got: list[Credential] = []
    source.subscribe(got.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        replace(path, issuer.token(exp=1060))
        await until(lambda: not source.fault)
        first = await source.current()
        assert (first.is_token, first.expires_at) == (True, 1060)
        replace(path, issuer.token(exp=1120))
        await until(lambda: got)
        assert got[0].expires_at == 1120
        nursery.cancel_scope.cancel()
    assert await source.current() == got[0]
    now = 1120.0
    with pytest.raises(CredentialFailed, match=f"the token in {path} has expired"):
        await source.current()
    replace(path, issuer.token(exp=1180))
    assert (await source.current()).expires_at == 1180, "read at once, without waiting for the next look"


async def test_a_token_that_is_no_jwt_has_no_known_end(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("opaque")
    found = await CredentialFile("main", "u", str(tmp_path / "token"), is_token=True).current()
    assert found == Credential("u", Secret("opaque"), is_token=True)
