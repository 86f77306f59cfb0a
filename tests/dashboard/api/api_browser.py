"""A browser of a running dashboard that keeps cookies, without a page."""

from __future__ import annotations

import json
from http.cookiejar import CookieJar
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, Request, build_opener

from tests.dashboard.browser.stage import Stage

GUEST = {"user": "guest", "password": "guest"}


class ApiBrowser:
    """Requests to the API about source 0, with their status."""

    def __init__(self, stage: Stage) -> None:
        self._url = stage.url
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of a response."""
        try:
            with self.open(method, path, body, **headers) as response:
                return response.status, json.load(response)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    def open(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return a response, to be read and closed; `HTTPError` for a refusal."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}api/v1/{path}", data, {"content-type": "application/json", **headers})
        request.method = method
        return self._opener.open(request, timeout=60)

    def log_in(self, **credentials: Any) -> tuple[int, Any]:
        """Log in to the broker."""
        return self.ask("POST", "sources/0/broker/login", GUEST | credentials)

    def change(self, change: str, **keys: Any) -> tuple[int, Any]:
        """Change the broker."""
        return self.ask("POST", "sources/0/broker/changes", {"change": change, **keys})
