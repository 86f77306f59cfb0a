"""Facts about a connection that the lives of messages refer to."""

from __future__ import annotations

import msgspec

from amqproxy.conversion.client_name import given_name
from amqproxy.taps.trace.events import ConnectionOpened, StateRestored

MAX_NAME = 256
"""Maximum length of a client's name for its connection, in characters."""


class LinkedConnection(msgspec.Struct, frozen=True, gc=False):
    """The virtual host and user of a connection, and the name that its client gave it; `None` if not known."""

    virtual_host: str | None = None
    user: str | None = None
    name: str | None = None

    @classmethod
    def of(cls, event: ConnectionOpened | StateRestored) -> LinkedConnection:
        """Return the facts that the handshake has shown."""
        name = given_name(event.client_properties or {})[:MAX_NAME]
        return cls(event.virtual_host, event.user, name or None)


NOT_KNOWN = LinkedConnection()
