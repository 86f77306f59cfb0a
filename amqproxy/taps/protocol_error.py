"""A peer's violation of its protocol, in the form shown to taps."""

from __future__ import annotations

from typing import Any, Protocol


class AnyProtocolError(Protocol):
    """The error of any protocol, whose name is `protocol`; the other fields are those of its `ProtocolError`."""

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
