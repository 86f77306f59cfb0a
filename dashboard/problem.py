"""API errors as problem details in JSON (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from amqproxy.process.supervision import contained

MEDIA_TYPE = "application/problem+json"


class ProblemDetails(BaseModel):
    """What went wrong. `at` is the place in a filter, or in rules, counted from 0; `error` is the control socket's."""

    status: int
    title: str
    detail: str
    at: int | None = None
    error: str | None = None


class Problem(Exception):
    """An error response, raised by a route."""

    def __init__(self, status: int, detail: str, *, at: int | None = None, error: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.at = at
        self.error = error


def problem_response(
    status: int, detail: str, *, at: int | None = None, error: str | None = None, headers: Any = None
) -> JSONResponse:
    """Return an error as a problem details response."""
    content: dict[str, Any] = {"status": status, "title": HTTPStatus(status).phrase, "detail": detail}
    if at is not None:
        content["at"] = at
    if error is not None:
        content["error"] = error
    return JSONResponse(content, status, headers, MEDIA_TYPE)


def handle_problems(app: FastAPI) -> None:
    """Answer all expected errors of routes with problem details."""

    @app.exception_handler(Problem)
    async def on_problem(request: Request, problem: Problem) -> JSONResponse:
        return problem_response(problem.status, problem.detail, at=problem.at, error=problem.error)

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> JSONResponse:
        return problem_response(error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        texts = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        return problem_response(422, "; ".join(texts))


class Containment:
    """Middleware that answers unexpected errors with a problem that reveals nothing, and logs them in one line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        has_begun = is_done = False

        async def noting_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        with contained("dashboard request failed", path=scope["path"]):
            await self._app(scope, receive, noting_send)
            is_done = True
        if is_done or has_begun:
            return
        if scope["type"] == "http":
            await problem_response(500, "this failed; the log of the dashboard has the reason")(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1011})


PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ProblemDetails, "description": "A problem", "content": {MEDIA_TYPE: {}}},
    "5XX": {"model": ProblemDetails, "description": "A problem", "content": {MEDIA_TYPE: {}}},
}
"""Error responses of all operations, for the OpenAPI document."""
