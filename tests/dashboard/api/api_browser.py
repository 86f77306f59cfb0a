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
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}api/v1/{path}", data, {"content-type": "application/json", **headers})
        request.method = method
        try:
            with self._opener.open(request, timeout=60) as response:
                return response.status, json.load(response)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    def log_in(self, **credentials: Any) -> tuple[int, Any]:
        """Log in to the broker."""
        return self.ask("POST", "sources/0/broker/login", GUEST | credentials)

    def change(self, change: str, **keys: Any) -> tuple[int, Any]:
        """Change the broker."""
        return self.ask("POST", "sources/0/broker/changes", {"change": change, **keys})
