"""Logins to the broker behind a source, with which it is changed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from amqproxy.configuration.values import is_loopback
from amqproxy.dashboard.api.actions import Body
from amqproxy.dashboard.api.control import ActorOf, asked, can
from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.auth import LOGIN_SECONDS
from amqproxy.dashboard.broker_logins import BrokerLogin, BrokerLogins, broker_cookie_name, broker_cookie_of
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.source import Source
from amqproxy.process.log import logger
from amqproxy.web.browser_requests import is_own, own_names
from amqproxy.web.wrong_passwords import TooManyFailures, WrongPasswords

router = APIRouter(tags=["broker"])

Text = Annotated[str, Field(max_length=1024)]


class BrokerLoginBody(Body):
    """A user of the broker.

    The workbench connects to `address` (HOST:PORT; by default where clients connect), by TLS if `tls`. `api` is the
    URL of a RabbitMQ's management API, which says what kind of queues it has.
    """

    user: Annotated[str, Field(min_length=1, max_length=1024)]
    password: Annotated[str, Field(max_length=4096)]
    address: Text = ""
    tls: bool = False
    api: Text = ""


class BrokerUser(BaseModel):
    """The user with which this browser changes the broker; `user` is null without a login.

    `tags` are those of the integrated broker.
    """

    user: str | None
    tags: list[str]
    address: str
    tls: bool
    api: str


def broker_logins_of(request: Request) -> BrokerLogins:
    """Return the logins to brokers."""
    found = request.app.state.broker_logins
    assert isinstance(found, BrokerLogins)
    return found


def login_of(request: Request, source: SourceOf) -> BrokerLogin:
    """Return the browser's login to the broker of a source; `Problem` without one."""
    found = broker_logins_of(request).of(broker_cookie_of(request.headers), source.id)
    if found is None:
        raise Problem(403, "log in to the broker first", error="no-login")
    return found


BrokerLoginOf = Annotated[BrokerLogin, Depends(login_of)]


def has_own_broker(source: Source) -> bool:
    """Whether an integrated broker answers for this source, which checks its users' passwords."""
    return can(source, "broker-login")


async def checked_user(
    request: Request, source: Source, login: BrokerLogin, vhost: str | None = None
) -> dict[str, Any]:
    """Return name, tags and virtual hosts of a user of the integrated broker; `Problem` for a wrong password."""
    address = request.client.host if request.client else ""
    # As for the management API: a page under another name of this machine may guess guest's password.
    names = own_names(request.app.state.settings.host)
    is_local = is_loopback(address) and is_own(request.headers.get("host", ""), names)
    keys = {"user": login.user, "password": login.password, "loopback": is_local, "vhost": vhost}
    return await asked(source, "broker-login", **keys)


@router.get("/sources/{source}/broker/login")
async def show_broker_login(request: Request, source: SourceOf) -> BrokerUser:
    """The broker's user that this browser has logged in."""
    found = broker_logins_of(request).of(broker_cookie_of(request.headers), source.id)
    if found is None:
        address = source.listeners[0] if source.listeners else ""
        return BrokerUser(user=None, tags=[], address=address, tls=False, api="")
    tags = (await checked_user(request, source, found))["tags"] if has_own_broker(source) else []
    return BrokerUser(user=found.user, tags=tags, address=found.address, tls=found.is_tls, api=found.api)


@router.post("/sources/{source}/broker/login")
async def log_in_to_broker(
    request: Request, response: Response, source: SourceOf, actor: ActorOf, body: BrokerLoginBody
) -> BrokerUser:
    """Log in to the broker. The password stays in the memory of the dashboard, for some hours at most.

    The integrated broker checks it at once, any other one when it is used.
    """
    if source.requests is None:
        raise Problem(404, f"{source.name} is a capture: there is no broker")
    address = body.address or (source.listeners[0] if source.listeners else "")
    login = BrokerLogin(user=body.user, password=body.password, address=address, is_tls=body.tls, api=body.api)
    tags: list[str] = []
    if has_own_broker(source):
        wrong_passwords = request.app.state.wrong_broker_passwords
        assert isinstance(wrong_passwords, WrongPasswords)
        client = request.client.host if request.client else ""

        async def check() -> dict[str, Any] | None:
            try:
                return await checked_user(request, source, login)
            except Problem as problem:
                if problem.error == "refused":
                    return None
                raise

        try:
            found = await wrong_passwords.checked(client, check)
        except TooManyFailures as error:
            raise Problem(429, str(error)) from None
        if found is None:
            logger().warning("dashboard broker login refused", source=source.name, by=actor.name)
            raise Problem(403, "the broker refuses this user or password", error="refused")
        tags = found["tags"]
    cookie = broker_logins_of(request).keep(broker_cookie_of(request.headers), source.id, login)
    actor.log("broker-login", source, "done", user=login.user)
    is_secure = request.url.scheme == "https"
    name = broker_cookie_name(request.headers)
    response.set_cookie(name, cookie, LOGIN_SECONDS, httponly=True, samesite="strict", secure=is_secure)
    return BrokerUser(user=login.user, tags=tags, address=address, tls=login.is_tls, api=login.api)


@router.delete("/sources/{source}/broker/login")
async def log_out_of_broker(request: Request, source: SourceOf) -> BrokerUser:
    """Forget the broker's user and password."""
    broker_logins_of(request).forget(broker_cookie_of(request.headers), source.id)
    return await show_broker_login(request, source)
