"""The error with which a rule ends a 0-10 connection."""

from __future__ import annotations

from amqproxy.amqp010.errors import ProtocolError, Scope
from amqproxy.conversion.error_codes import connection_code
from amqproxy.rules.verdict import Close


class Amqp010Refusal(ProtocolError):
    """A rule closes the connection; the code is the nearest one of 0-10."""

    name = "refused"
    usual_scope = Scope.CONNECTION

    def __init__(self, close: Close) -> None:
        super().__init__(close.text)
        self.code = connection_code(close.code)  # type: ignore[misc]

    @property
    def reply_text(self) -> str:
        return self.text
