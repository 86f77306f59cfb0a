"""A conversation of AMQP 0-10 on a stage."""

from __future__ import annotations

from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.peer import CLIENT
from tests.proxy.amqp010_script import Step
from tests.proxy.stage import Actor, Stage


async def say(actor: Actor, data: bytes, piece: int = 1 << 20) -> None:
    """Say something in pieces."""
    for start in range(0, len(data), piece):
        actor.say(data[start : start + piece])
        await wait_all_tasks_blocked()


async def play(stage: Stage, steps: list[Step], piece: int = 1 << 20) -> None:
    """Pass on each step, in pieces; what comes out must be the same."""
    for sender, data in steps:
        await say(stage.client if sender is CLIENT else stage.broker, data, piece)
        assert (stage.broker if sender is CLIENT else stage.client).look() == data


async def close(stage: Stage) -> None:
    stage.client.perform("EOF")
    await wait_all_tasks_blocked()  # a broker that ended first would have the client sent connection.close
    stage.broker.perform("EOF")
    await stage.is_over.wait()


def names(data: bytes) -> list[str]:
    """The controls and commands in what a peer got."""
    return [frame.name for frame in FrameReader(frame_max=0).feed(data) if frame.index >= 0]
