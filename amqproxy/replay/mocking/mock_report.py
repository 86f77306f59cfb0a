"""Report on a live client of a mock: its differences from the recording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from amqproxy.comparison.comparison_text import difference_lines
from amqproxy.comparison.difference import Difference
from amqproxy.replay.mocking.mock_connection import MockConnection
from amqproxy.taps.record import encoded
from amqproxy.taps.text import printable, value_text


class MockedConnection(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="report", tag="mocked"):
    """A client that has left: its address, its name and user, and the recorded connection that it played, if any.

    `differences` are those from the recorded client, `more_differences` the number of further ones; `unanswered`
    describes the commands for which the recording had no answer.
    """

    client: str
    name: Any = ""
    user: Any = ""
    stream: int | None = None
    connection: str | None = None
    differences: list[Difference] = []
    more_differences: int = 0
    unanswered: list[str] = []

    @staticmethod
    def of(client: str, connection: MockConnection[Any, Any, Any]) -> MockedConnection:
        """Return the report on a connection that is over."""
        script = connection.script
        return MockedConnection(
            client=client,
            name=connection.client_name,
            user=connection.user,
            stream=None if script is None else script.stream,
            connection=None if script is None else script.name_of_ends,
            differences=connection.notes.differences,
            more_differences=connection.notes.count - len(connection.notes.differences),
            unanswered=connection.notes.unanswered,
        )

    @property
    def is_same(self) -> bool:
        """Whether the client did the same as the recorded one."""
        return not (self.differences or self.unanswered)

    def to_json(self) -> bytes:
        """Return one line of JSON, without the line's end."""
        return encoded(self)

    def lines(self, *, is_coloured: bool = False) -> Iterator[str]:
        """Yield the report as text lines, with control characters escaped."""
        who = f"{self.client}"
        if self.name or self.user:
            who += f" ({value_text(self.name or self.user)})"
        if self.stream is None:
            yield f"{who} played no recorded connection"
        else:
            ending = "did the same" if self.is_same else "did otherwise:"
            yield f"{who} played #{self.stream} {printable(self.connection or '')}, and {ending}"
        for each in self.differences:
            yield from difference_lines(each, is_coloured=is_coloured)
        if self.more_differences:
            yield f"  … and {self.more_differences} more"
        for text in self.unanswered:
            yield f"  no answer: {printable(text)}"
