"""Bodies are cut where the client takes smaller frames than the broker."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import NotAllowed
from amqproxy.amqp091.frame import BODY, OVERHEAD, encode_method, every_frame
from amqproxy.amqp091.methods import BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, ConnectionTuneOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.rules.bridge import bridge_rules
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Stage, Verdict
from tests.proxy.interceptor_transcript import PRELUDE, ScriptedEvaluator, Water, read

SMALL, LARGE = 4096, 8192


def answered(context: CommandContext) -> Verdict:
    method = context.command.method
    if isinstance(method, ConnectionTuneOk):
        return Verdict(command=context.command.altered(method=replace(method, frame_max=LARGE)))
    return Verdict(command=context.command)


def between(stage: Stage = Stage.METHOD, *more: str) -> Water:
    """A client with SMALL frames and a broker with LARGE ones; rules look at more methods."""
    water = Water(ScriptedEvaluator(answered, ["connection.tune-ok", *more], stage))
    for line in PRELUDE.strip().splitlines():
        line = line.replace("tune-ok channel_max=2047 frame_max=131072", f"tune-ok channel_max=2047 frame_max={SMALL}")
        water.say(*read(line))
        if "tune-ok" in line:
            water.interceptor.ask_for_frames()  # as the session does
    assert [water.interceptor.connections[peer].frame_max for peer in (CLIENT, SERVER)] == [SMALL, LARGE]
    return water


def cut(octets: bytes) -> list[int]:
    """Sizes of the body frames, of which none is larger than the client takes."""
    sizes = [frame.length() for frame in every_frame(octets, 0) if frame.kind == BODY]
    assert max(sizes, default=0) <= SMALL
    return sizes


DELIVERIES = [BasicDeliver("t", 1), BasicReturn(312, "NO_ROUTE", "", "q"), BasicGetOk(1)]


@pytest.mark.parametrize("stage", [None, Stage.METHOD, Stage.HEADER, Stage.BODY])
@pytest.mark.parametrize("method", DELIVERIES, ids=lambda each: each.name)
@pytest.mark.parametrize("step", [1 << 20, 1000, 1])
def test_deliveries_are_cut(method: object, stage: Stage | None, step: int) -> None:
    water = between(stage or Stage.METHOD, *([method.name] if stage is not None else []))
    if isinstance(method, BasicGetOk):
        water.say(*read(">> 1 basic.get"))
    body = b"x" * 20_000
    said = Command(1, method, Properties(app_id="a"), body).encode(LARGE)
    heard = b"".join(water.say(SERVER, said[start : start + step])[CLIENT] for start in range(0, len(said), step))
    assert sum(cut(heard)) - OVERHEAD * len(cut(heard)) == len(body)
    head = Command(1, method, Properties(app_id="a"), b"").encode(LARGE)
    assert heard[: len(head) - 12] == said[: len(head) - 12]


def test_what_fits_passes_as_it_is() -> None:
    water = between()
    said = b"".join(Command(1, BasicDeliver("t", number), Properties(), b"x" * 3000).encode(LARGE) for number in (1, 2))
    assert water.say(SERVER, said)[CLIENT] == said


@pytest.mark.parametrize("size", [4089, 4096])
def test_a_frame_that_only_its_payload_would_let_pass_is_cut_as_well(size: int) -> None:
    heard = between().say(SERVER, Command(1, BasicDeliver("t", 1), Properties(), b"x" * size).encode(LARGE))[CLIENT]
    assert cut(heard) == [SMALL, size - SMALL + 2 * OVERHEAD]


def test_bodies_of_the_client_pass_as_they_are() -> None:
    said = Command(1, BasicPublish(routing_key="q"), Properties(), b"x" * 20_000).encode(SMALL)
    assert between().say(CLIENT, said)[SERVER] == said


@pytest.mark.parametrize("stage", [None, Stage.METHOD, Stage.HEADER, Stage.BODY])
@pytest.mark.parametrize("step", [1 << 20, 1000])
def test_headers_that_the_client_cannot_take_close_its_connection(stage: Stage | None, step: int) -> None:
    water = between(stage or Stage.METHOD, *(["basic.deliver"] if stage is not None else []))
    properties = Properties(headers=Table({"large": "x" * 5000}))
    said = Command(1, BasicDeliver("t", 1, routing_key="orders"), properties, b"abc").encode(LARGE)
    heard = b"".join(water.say(SERVER, said[start : start + step])[CLIENT] for start in range(0, len(said), step))
    refusal = water.interceptor.refusal
    assert refusal is not None
    assert (refusal.code, refusal.reply_text) == (
        501,
        "FRAME_ERROR - header of 5037 bytes in a basic.deliver with routing key 'orders', "
        f"frame_max of the client is {SMALL}",
    )
    assert b"abc" not in heard


@pytest.mark.parametrize(
    ("offered", "asked", "answered"),
    [(4096, 4096, 4096), (5000, 4096, 5000), (8191, 8191, 8191), (8192, 4096, 8192), (0, 4096, 8192)],
)
def test_rules_raise_frame_max_to_what_the_broker_offers_at_most(offered: int, asked: int, answered: int) -> None:
    water = Water(RuleSet((), bridging=bridge_rules("rabbitmq-4")).evaluator(Client()))
    for line in PRELUDE.strip().splitlines()[:3]:
        water.say(*read(line.replace("frame_max=131072", f"frame_max={offered}")))
    words = encode_method(0, ConnectionTuneOk(2047, asked, 60))
    assert water.say(CLIENT, words)[SERVER] == encode_method(0, ConnectionTuneOk(2047, answered, 60))


def test_clients_that_ask_for_more_than_is_offered_are_not_corrected() -> None:
    water = Water(RuleSet((), bridging=bridge_rules("rabbitmq-4")).evaluator(Client()))
    for line in PRELUDE.strip().splitlines()[:3]:
        water.say(*read(line.replace("frame_max=131072", "frame_max=4096")))
    with pytest.raises(NotAllowed, match="frame_max 5000"):
        water.say(CLIENT, encode_method(0, ConnectionTuneOk(2047, 5000, 60)))


def test_nothing_is_kept_of_closed_channels() -> None:
    water = between()
    water.say(SERVER, Command(1, BasicReturn(312, "NO_ROUTE", "", "q"), Properties(), b"x" * 20_000).encode(LARGE))
    assert water.interceptor._legs.delivering.keys() == {1}
    water.say(*read(">> 1 channel.close"))
    water.say(*read("<< 1 channel.close-ok"))
    assert not water.interceptor._legs.delivering
