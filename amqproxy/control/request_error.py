"""The error of a request that cannot be carried out."""

from __future__ import annotations


class RequestError(Exception):
    """A request that cannot be carried out; `name` is for programs, the text for people."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name
