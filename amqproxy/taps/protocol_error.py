"""A peer's violation of its protocol, as taps are shown it."""

from __future__ import annotations

from typing import Any, Protocol


class AnyProtocolError(Protocol):
    """The error of any protocol, whose name is `protocol`; all else is as in each protocol's `ProtocolError`."""

    @property
    def protocol(self) -> str: ...

    @property
    def code(self) -> Any: ...

    @property
    def reply_text(self) -> str: ...

    @property
    def channel(self) -> int: ...

    @property
    def offset(self) -> int | None: ...

    @property
    def received(self) -> bytes: ...
