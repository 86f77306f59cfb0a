"""Failures that end the command, with their exit codes."""

from __future__ import annotations

FAILED, MISUSED, INTERRUPTED, UNHEARD = 1, 2, 130, 141


class Failure(Exception):
    """An error message for the user, with an exit code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code
