"""What there is on the page: its screens, and the list of frames with its filter."""

from typing import Any

SCREENS = [
    "overview",
    "connections",
    "upstreams",
    "frames",
    "sequence",
    "messages",
    "history",
    "topology",
    "findings",
    "rules",
    "captures",
    "analytics",
    "broker",
]


def rows(window: Any) -> Any:
    return window.get_by_role("grid", name="Frames").locator(".sheet").get_by_role("row")


def set_filter(window: Any, text: str) -> None:
    window.get_by_label("Filter (CEL)").fill(text)
    window.keyboard.press("Enter")
