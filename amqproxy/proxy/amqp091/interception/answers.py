"""Replies on behalf of the other peer to the sender of a message or confirm that is not forwarded."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import BY_CODE, Scope
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    Method,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.proxy.amqp091.interception.actions import Insert, Watch
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection
from amqproxy.proxy.amqp091.interception.channel_tags import ChannelTags
from amqproxy.proxy.interception.actions import Actions, CloseChannel
from amqproxy.rules.verdict import Answer, Close, Insertion, Verdict
from amqproxy.taps.note import Note


def answer(tags: ChannelTags, direction: ChannelDirection, command: Command, verdict: Verdict, note: Note) -> Actions:
    """Reply to the sender of a command that is not forwarded, if it expects a reply."""
    method = command.method
    if isinstance(method, BasicPublish):
        yield from _answer_publish(tags, direction.ordinal, command, verdict, note)
    elif isinstance(method, (BasicDeliver, BasicGetOk)):
        yield from _answer_delivery(tags, command, verdict.answer, note)
    elif isinstance(method, (BasicAck, BasicNack)) and direction.sender is SERVER:
        yield from tags.number_confirms()
        tags.lose_confirm(method)


def _answer_publish(tags: ChannelTags, ordinal: int, command: Command, verdict: Verdict, note: Note) -> Actions:
    method, answer = command.method, verdict.answer
    number = tags.number_of_publish(ordinal)
    if answer is Answer.NACK and number is None:
        text = f"{BY_CODE[403].name} - refused by a rule of the proxy"
        yield CloseChannel(command, Close(Scope.CHANNEL, 403, text), note)
        return
    if answer is Answer.RETURN:
        code, text = verdict.returned
        returned = BasicReturn(code, text, method.exchange, method.routing_key)
        returning = Command(command.channel, returned, command.properties, command.body)
        yield Insert(Insertion(CLIENT, returning), None, note)
    if number is None:
        return
    if tags.withhold_publish(number, is_answered=answer is not Answer.NOTHING):
        yield Watch()
    if answer is not Answer.NOTHING:  # sent after a basic.return
        confirm: Method = BasicNack(number) if answer is Answer.NACK else BasicAck(number, False)
        yield Insert(Insertion(CLIENT, Command(command.channel, confirm)), None, note)


def _answer_delivery(tags: ChannelTags, command: Command, answer: Answer, note: Note) -> Actions:
    method = command.method
    is_acked = tags.is_acked()
    yield from tags.number_deliveries(method.delivery_tag - 1)
    tags.receive(method.delivery_tag, is_acked=is_acked)
    if is_acked and answer is not Answer.NOTHING:
        settling = tags.settle_ourselves(method.delivery_tag, answer)
        if settling is not None:
            yield Insert(Insertion(SERVER, Command(command.channel, settling)), None, note)
            tags.note_own_settling(settling)
