"""A service that is asked about users, as RabbitMQ asks it, and what it can do wrong."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio
from trio.testing import MockClock

from amqproxy.configuration.login_config import LoginCallback, LoginConfig
from amqproxy.proxy.logins.attempt import Identity, LoginDenied
from amqproxy.proxy.logins.configured_login import ConfiguredLogin
from amqproxy.proxy.logins.user_service import UserService
from amqproxy.tokens.web_client import Answer, WebClient, WebFailed
from tests.proxy.logins.attempts import Counts, attempt
from tests.tokens.web_service import Reply, WebService


def checks(service: WebService, *, cache: float = 60) -> UserService:
    config = LoginCallback(
        url=f"{service.url}/auth/user", vhost_url=f"{service.url}/auth/vhost", timeout=30, cache=cache
    )
    return UserService(config, WebClient())


@pytest.mark.parametrize(
    ("answer", "tags"),
    [
        (b"allow", ()),
        (b"allow administrator management\n", ("administrator", "management")),
        (b"Allow", ()),
    ],
)
async def test_allow_has_tags(service: WebService, answer: bytes, tags: tuple[str, ...]) -> None:
    service.answer = lambda _: Reply(answer)
    identity, remembered = await checks(service, cache=7).check(attempt("orders", "tulip"), "")
    assert identity == Identity("orders", "callback", tags)
    assert remembered == 7
    assert service.requests[0].form == {"username": "orders", "password": "tulip"}


async def test_a_certificate_has_no_password(service: WebService) -> None:
    await checks(service).check(attempt("CN=orders", mechanism="EXTERNAL"), "")
    assert service.requests[0].form == {"username": "CN=orders"}


@pytest.mark.parametrize("answer", [b"deny", b"deny since it is late", b"DENY"])
async def test_deny_is_a_refusal(service: WebService, answer: bytes) -> None:
    service.answer = lambda _: Reply(answer)
    with pytest.raises(LoginDenied, match="the service denies it") as found:
        await checks(service).check(attempt("orders", "tulip"), "")
    assert not found.value.is_failure


async def test_a_name_that_cannot_be_posted_is_refused(service: WebService) -> None:
    with pytest.raises(LoginDenied, match="the service denies it"):
        await checks(service).check(attempt("\udc80", "tulip"), "")
    assert not service.requests


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(b"allow", 500), "the status 500"),
        (Reply(b"allow", 204), "the status 204"),
        (Reply(b"allow", 302, {"Location": "/allow"}), "the status 302"),
        (Reply(b"allowed"), "neither allow nor deny"),
        (Reply(b""), "neither allow nor deny"),
        (Reply(b"\xff"), "neither allow nor deny"),
        (Reply(b"allow " + b"tag " * 8192), "more than 16384 bytes"),
        (Reply(b"allow ", size=1 << 30), "more than 1048576 bytes"),
        (Reply(closes=True), "cannot be asked"),
    ],
)
async def test_any_other_answer_is_a_failure(service: WebService, reply: Reply, reason: str) -> None:
    service.answer = lambda _: reply
    with pytest.raises(LoginDenied, match=reason) as found:
        await checks(service).check(attempt("orders", "tulip"), "")
    assert found.value.is_failure
    assert not await checks(service).check_vhost(Identity("orders", "callback"), "/", "10.0.0.1", "10.0.0.1")


async def test_virtual_hosts_are_asked_for(service: WebService) -> None:
    service.answer = lambda request: Reply(b"allow" if request.form["vhost"] == "/" else b"deny")
    found = checks(service)
    identity = Identity("orders", "callback", ("a", "b"))
    assert await found.check_vhost(identity, "/", "10.0.0.1", "10.0.0.1")
    assert not await found.check_vhost(identity, "other", "10.0.0.1", "10.0.0.1")
    assert service.requests[0].path == "/auth/vhost"
    assert service.requests[0].form == {"username": "orders", "vhost": "/", "ip": "10.0.0.1", "tags": "a b"}


class Hanging(WebClient):
    """Requests that are never answered."""

    def __init__(self) -> None:
        self.under_way: list[str] = []
        self.most = 0

    async def post(self, url: str, form: Mapping[str, str], timeout: float, **_: object) -> Answer:
        self.under_way.append(form["username"])
        self.most = max(self.most, len(self.under_way))
        try:
            await trio.sleep(timeout)
        finally:
            self.under_way.remove(form["username"])
        raise WebFailed(f"it has not answered within {timeout:g} s")


async def test_a_service_that_hangs_is_asked_by_few_and_fails_in_time(
    autojump_clock: MockClock, counts: Counts
) -> None:
    """Guesses of one address leave turns for others, and all are answered within the timeout."""
    callback = LoginCallback(url="http://service/", timeout=5.0, at_once=4)
    client = Hanging()
    config = LoginConfig(callback=callback, failure_delay=0)
    login = ConfiguredLogin(config, counts, service=UserService(callback, client))

    async def fail(user: str, password: str, address: str) -> None:
        began = trio.current_time()
        with pytest.raises(LoginDenied):
            await login.check(attempt(user, password, address=address))
        assert trio.current_time() - began == pytest.approx(5.0)

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(fail, "guesser", str(number), "10.6.6.6")
        await trio.sleep(1)
        assert client.under_way == ["guesser"] * 2
        nursery.start_soon(fail, "orders", "tulip", "10.0.0.1")
        await trio.sleep(1)
        assert client.under_way == ["guesser", "guesser", "orders"]
    assert client.most <= 4
    assert counts.logins == [("callback", "failed")] * 101


async def test_equal_logins_ask_once(service: WebService, counts: Counts) -> None:
    config = LoginConfig(callback=LoginCallback(url=service.url))
    login = ConfiguredLogin(config, counts, service=checks(service))
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(login.check, attempt("orders", "tulip", address=f"10.0.0.{number}"))
    assert len(service.requests) == 1
    login.forget()
    await login.check(attempt("orders", "tulip"))
    assert len(service.requests) == 2
    assert counts.logins == [("callback", "accepted")] * 51
