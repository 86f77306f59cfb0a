"""The connection, and optionally the channel, that is followed: `--follow CONNECTION[/CHANNEL]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.capture.decoded import Decoded, DecodedFrames, SkippedBytes, StreamEnded
from amqproxy.capture.selection.session_legs import SessionLegs
from amqproxy.peer import CLIENT
from amqproxy.taps.text import printable

MAX_HELD = 16
"""Packets of a connection that are held until the client's name for it is known."""

MAX_LISTED = 20
"""Connections, or channels, that are listed if none matches."""


class Conversation:
    """The connections selected by `text`, and the channel, if it names one: NAME, NAME/CHANNEL.

    The name is a connection's number, with or without #; the port of its client; a part of its name, which consists of
    the addresses and ports of both ends; or a part of the name given by the client. It may match several connections.
    """

    def __init__(self, text: str) -> None:
        name, slash, channel = text.rpartition("/")
        if slash and channel.isascii() and channel.isdigit():
            self.channel: int | None = int(channel)
        else:
            name, self.channel = text, None
        self._text = text
        self._name = name.casefold()
        number = name.removeprefix("#")
        self._number = int(number) if number.isascii() and number.isdigit() else None
        self._connections: list[str] = []
        self._other_connections = 0
        self._channels: set[int] = set()
        self._has_more_channels = False
        self._is_found = False

    def followed(self, decoded: Iterable[Decoded], legs: SessionLegs | None = None) -> Iterator[Decoded]:
        """Yield the traffic of the matching connections, on all their channels, and on both their legs."""
        wanted: dict[int, bool | None] = {}
        held: dict[int, list[Decoded]] = {}
        for each in decoded:
            client_stream = None if legs is None else legs.client_stream(each.stream)
            stream = each.stream if client_stream is None else client_stream
            if stream not in wanted:
                if client_stream is not None:
                    continue  # its session has ended
                wanted[stream] = self._is_meant(stream, each.connection)
                held[stream] = []
            is_wanted = wanted[stream]
            if is_wanted is None:
                waiting = held[stream]
                waiting.append(each)
                given = each.client_name() if isinstance(each, DecodedFrames) and each.sender == CLIENT else None
                if client_stream is not None and self._name in each.connection.casefold():
                    given = self._name  # the name matches that of its upstream connection
                if given is None and _may_be_told(each) and len(waiting) < MAX_HELD:
                    continue
                is_wanted = wanted[stream] = given is not None and self._name in given.casefold()
                if is_wanted:
                    yield from map(self._noted, waiting)
                else:
                    self._list(stream, waiting[0].connection, given)
                held[stream] = []
            elif is_wanted:
                yield self._noted(each)
            if isinstance(each, StreamEnded) and client_stream is None:
                del wanted[stream], held[stream]
        for stream, waiting in held.items():
            if waiting:
                self._list(stream, waiting[0].connection, None)

    def _is_meant(self, stream: int, connection: str) -> bool | None:
        """Whether to follow this connection; None if that depends on the client's name for it."""
        client_port = connection.partition("-")[0].rpartition(":")[2]
        if self._number is not None:
            meant = self._number == stream or str(self._number) == client_port
        elif self._name in connection.casefold():
            meant = True
        else:
            return None
        self._list(stream, connection, None)
        return meant

    def _noted(self, each: Decoded) -> Decoded:
        """Return the item unchanged, after noting its channels."""
        if self.channel is None:
            self._is_found = True
        elif isinstance(each, DecodedFrames):
            for frame in each.frames:
                self._is_found = self._is_found or frame.channel == self.channel
                if len(self._channels) < MAX_LISTED:
                    self._channels.add(frame.channel)
                else:
                    self._has_more_channels = self._has_more_channels or frame.channel not in self._channels
        return each

    def _list(self, stream: int, connection: str, given: str | None) -> None:
        if len(self._connections) < MAX_LISTED:
            self._connections.append(f"#{stream} {connection}" + (f" ({printable(given)})" if given else ""))
        else:
            self._other_connections += 1

    def why_nothing(self) -> str | None:
        """Return why nothing was followed, with the available connections or channels; None if something was."""
        if self._is_found:
            return None
        if self._channels:
            more = " and more" if self._has_more_channels else ""
            return f"no channel is {self._text}: there are {', '.join(map(str, sorted(self._channels)))}{more}"
        if not self._connections:
            return f"no connection is {self._text}: there is none at all"
        more = f"\n  and {self._other_connections} more" if self._other_connections else ""
        there = "".join(f"\n  {each}" for each in self._connections)
        return f"no connection is {self._text}: there are{there}{more}"


def _may_be_told(each: Decoded) -> bool:
    """Whether the client's name may still follow: it is sent before any channel is used."""
    if isinstance(each, DecodedFrames):
        return all(frame.channel == 0 for frame in each.frames)
    return not isinstance(each, SkippedBytes | StreamEnded)
