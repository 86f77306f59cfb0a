"""A page of the browser, with what must never happen to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlsplit

WIDE = {"width": 1280, "height": 800}
EXPECTED = (502, 503)  # while the proxy is gone
NARROW = {"width": 390, "height": 844}


class WatchedPage:
    """Playwright's page as `page`, and what it complained of: errors, what the policy forbids, calls to elsewhere."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.host = ""
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", self._noted)
        page.on("request", self._requested)
        page.on("response", self._answered)
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    @classmethod
    @contextmanager
    def opened(cls, browser: Any, **options: Any) -> Iterator[Self]:
        """Fails at the end if the page complained of anything."""
        with browser.new_context(viewport=WIDE, timezone_id="UTC", **options) as context:
            page = cls(context.new_page())
            yield page
            assert not page.complaints, page.complaints

    def goto(self, url: str) -> None:
        self.host = urlsplit(url).netloc
        self.page.goto(url)

    def violations(self) -> list[str]:
        """What axe finds, as rule and place."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {node['target']} {node['failureSummary']}" for each in found for node in each["nodes"]]

    def overflows(self) -> bool:
        """Is it wider than the window?"""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))

    def _noted(self, message: Any) -> None:
        # What cannot be loaded is shown by the page itself; a failure of the server's is noted below.
        if (
            message.type == "error"
            and "Failed to load resource" not in message.text
            and "WebSocket" not in message.text
        ):
            self.complaints.append(f"console: {message.text}")

    def _answered(self, response: Any) -> None:
        if response.status >= 500 and response.status not in EXPECTED:
            self.complaints.append(f"response: {response.status} of {response.url}")

    def _requested(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and self.host and parts.netloc != self.host:
            self.complaints.append(f"request: {request.url}")
