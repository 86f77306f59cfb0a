"""Filter for the messages and requests of one connection."""

from __future__ import annotations

from typing import ClassVar

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
    """Filter for complete commands of both peers of a connection; `client` holds the facts about the client."""

    METHODS: ClassVar[tuple[type, ...]] = (Method,)
    """Classes of the methods that it selects from."""

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._filter = chosen
        self._stage = chosen.condition.stage
        self._client = client

    @staticmethod
    def kept_body(chosen: Filter) -> int:
        """Return the number of body bytes that a filter can read."""
        return MAX_BODY if chosen.condition.stage is Stage.BODY else 0

    def learn(self, sender: Peer, frame: object) -> None:
        """Update the client facts from a 0-9-1 frame of channel 0."""
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
        """Whether the filter holds; also true if it fails or the command is not of 0-9-1, so that such commands are
        seen.
        """
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
        self, sender: Peer, command: Command, time: float, tags: tuple[str, ...] = (), body_limit: int = MAX_BODY
    ) -> bool:
        """Whether the filter holds for a command received at `time`; also true if it fails, so that the command is
        seen.
        """
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
