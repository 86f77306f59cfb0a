"""Which messages and requests of one connection a filter lets by."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.transitions import Peer
from amqproxy.rules.client_info import learned_client
from amqproxy.rules.context import BodyTooLarge, ChannelInfo, Client, CommandContext
from amqproxy.rules.matching.filters import Filter, FilterFailed
from amqproxy.rules.verdict import Stage


class CommandFilter:
    """Filters commands of both peers of a connection that are complete. `client` is what is known of the client."""

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._filter = chosen
        self._stage = chosen.condition.stage
        self._client = client

    @staticmethod
    def kept_body(chosen: Filter) -> int:
        """How many bytes of a body a filter may look at."""
        return MAX_BODY if chosen.condition.stage is Stage.BODY else 0

    def learn(self, sender: Peer, frame: object) -> None:
        """Know the client by what it sends on channel 0: a frame of 0-9-1."""
        if isinstance(frame, Frame):
            self._client = learned_client(self._client, sender, frame)

    def selects(
        self,
        sender: Peer,
        channel: int,
        method: object,
        properties: object,
        size: int,
        body: bytes,
        *,
        ts_ns: int,
        tags: tuple[str, ...] = (),
    ) -> bool:
        """Does the filter hold? What it fails on, or what is not of 0-9-1, is let by: that should be seen."""
        if not isinstance(method, Method) or not isinstance(properties, Properties):
            return True
        if self._stage is Stage.METHOD or not method.carries_content:
            return self.holds(sender, Command(channel, method), ts_ns / 1e9, tags)
        frames = [Frame(encode_method(channel, method))]
        frames.append(Frame(encode_frame(HEADER, channel, ContentHeader(size, properties).encode())))
        if self._stage is Stage.BODY:
            frames.append(Frame(encode_frame(BODY, channel, body)))
        return self.holds(sender, Command.received(frames), ts_ns / 1e9, tags)

    def holds(
        self, sender: Peer, command: Command, time: float, tags: tuple[str, ...], body_limit: int = MAX_BODY
    ) -> bool:
        """Does the filter hold for a command that came at `time`? What it fails on is let by: that should be seen."""
        context = CommandContext(
            sender=sender,
            command=command,
            client=self._client,
            channel=ChannelInfo(number=command.channel),
            now=time,
            time=time,
            tags=tags,
            body_limit=body_limit,
        )
        try:
            return self._filter.condition.holds(context)
        except (FilterFailed, ProtocolError, BodyTooLarge):
            return True


def filters_of(chosen: Filter) -> Callable[[int, str], CommandFilter]:
    """What makes a filter of the commands of each connection, given its number and its name."""

    def filter_of(number: int, name: str) -> CommandFilter:
        return CommandFilter(chosen, Client.named(number, name))

    return filter_of
