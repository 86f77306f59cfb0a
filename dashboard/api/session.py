"""Login and logout."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from amqproxy.dashboard.auth import LOGIN_SECONDS, Logins, cookie_name, cookie_of
from amqproxy.dashboard.broker_logins import broker_cookie_of
from amqproxy.dashboard.problem import Problem
from amqproxy.process.log import logger
from amqproxy.web.wrong_passwords import TooManyFailures

router = APIRouter(tags=["session"])

Secret = Annotated[str | None, Field(max_length=10_000)]


class LoginBody(BaseModel):
    """The token, or the password."""

    model_config = ConfigDict(extra="forbid")

    token: Secret = None
    password: Secret = None


class Session(BaseModel):
    """Whether one has to log in, and has; and whether anything can be changed here."""

    needs_login: bool
    is_logged_in: bool
    read_only: bool


def logins_of(request: Request) -> Logins:
    """Return the logins of the application."""
    found = request.app.state.logins
    assert isinstance(found, Logins)
    return found


def session_of(request: Request, *, is_logged_in: bool | None = None) -> Session:
    """Return whether a login is needed, and whether the request has one."""
    logins = logins_of(request)
    if is_logged_in is None:
        is_logged_in = logins.login_of(request.headers) is not None
    return Session(
        needs_login=logins.is_needed, is_logged_in=is_logged_in, read_only=request.app.state.settings.read_only
    )


@router.get("/session")
async def show_session(request: Request) -> Session:
    """State of your login."""
    return session_of(request)


@router.post("/session")
async def log_in(request: Request, response: Response, body: LoginBody) -> Session:
    """Log in; the cookie lasts for some hours."""
    logins = logins_of(request)
    address = request.client.host if request.client else "?"
    cookie = None
    for secret in {each for each in (body.token, body.password) if each}:
        try:
            cookie = cookie or await logins.log_in(secret, address)
        except TooManyFailures as error:
            raise Problem(429, str(error)) from None
    if cookie is None:
        if not logins.is_needed:
            return session_of(request)
        logger().warning("dashboard login refused", client=address)
        raise Problem(401, "this is not the token, nor the password")
    logger().info("dashboard login", client=address)
    is_secure = request.url.scheme == "https"
    name = cookie_name(request.headers)
    response.set_cookie(name, cookie, LOGIN_SECONDS, httponly=True, samesite="strict", secure=is_secure)
    return session_of(request, is_logged_in=True)


@router.delete("/session")
async def log_out(request: Request, response: Response) -> Session:
    """Log out."""
    logins_of(request).log_out(cookie_of(request.headers))
    request.app.state.broker_logins.forget(broker_cookie_of(request.headers))
    response.delete_cookie(cookie_name(request.headers))
    return session_of(request, is_logged_in=not logins_of(request).is_needed)
