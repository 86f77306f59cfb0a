"""Commands as they are received, and the verdict of an evaluator on them."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.rules.context import ChannelInfo, CommandContext
from amqproxy.rules.engine.evaluator import RuleEvaluator
from amqproxy.rules.verdict import Stage, Verdict


def command(method: Method, channel: int = 1, properties: Properties | None = None, body: bytes = b"") -> Command:
    """The command as it was received, whole."""
    frames = [Frame(encode_method(channel, method))]
    if method.carries_content:
        header = ContentHeader(len(body), properties or Properties())
        frames.append(Frame(encode_frame(HEADER, channel, header.encode())))
        if body:
            frames.append(Frame(encode_frame(3, channel, body)))
    return Command.received(frames)


def evaluated(evaluator: RuleEvaluator, sent: Command, sender: Peer = CLIENT, **more: Any) -> Verdict:
    """The verdict on a command, staged as a session does it; what passes at once has the plainest."""
    stage = evaluator.stage(sender, sent.frames[0], ChannelInfo(number=sent.channel))
    if stage is Stage.NOTHING:
        return Verdict(command=sent)
    return evaluator.evaluate(CommandContext(sender=sender, command=sent, client=evaluator.client, **more))
