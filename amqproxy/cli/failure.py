"""What ends the command before its time, and with which exit code."""

from __future__ import annotations

FAILED, MISUSED, INTERRUPTED, UNHEARD = 1, 2, 130, 141


class Failure(Exception):
    """An error message for the user, and the exit code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code
