"""What rules make must fit the protocol."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.frame import every_frame
from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.faults.impairments import Latency
from amqproxy.rules.sendable import Unsendable, check_types, check_verdict
from amqproxy.rules.verdict import Answer, Close, HoldAction, Impairment, Insertion, MirroredCopy, Verdict
from tests.rules.scene import GUEST, Shelf, from_client, rule

PUBLISH = from_client(BasicPublish(exchange="orders", routing_key="new"), body=b"abc").command
LONG = "x" * 256


def _with(**changes: Any) -> Verdict:
    return msgspec.structs.replace(Verdict(command=PUBLISH), **changes)


def test_of_what_is_shown_the_header_may_be_yet_to_come() -> None:
    begun = Command.received(every_frame(PUBLISH.encode(0), 0)[:1])
    check_verdict(Verdict(command=begun, shown=begun.altered(BasicPublish(routing_key="***"))), begun)


@pytest.mark.parametrize(
    "verdict",
    [
        _with(command=PUBLISH.altered(BasicPublish(routing_key=LONG))),
        _with(command=PUBLISH.altered(BasicPublish(routing_key="\ud800"))),
        _with(command=PUBLISH.altered(BasicPublish(routing_key=None))),  # type: ignore[arg-type]
        _with(command=PUBLISH.altered(BasicPublish(routing_key=b"x"))),  # type: ignore[arg-type]
        _with(command=PUBLISH.altered(QueueDeclare(arguments=None))),  # type: ignore[arg-type]
        _with(command=PUBLISH.altered(QueueDeclare())),
        _with(command=PUBLISH.altered(None, Properties(priority=256))),
        _with(command=PUBLISH.altered(None, Properties(reply_to=LONG))),
        _with(command=PUBLISH.altered(None, Properties(timestamp=-1))),
        _with(command=PUBLISH.altered(None, Properties(priority=math.nan))),  # type: ignore[arg-type]
        _with(command=Command(2, BasicPublish())),
        _with(command=Command(1, BasicAck(-1))),
        _with(command=Command(1, BasicDeliver())),
        _with(insertions=(Insertion(CLIENT, Command(1, BasicAck(-1))),)),
        _with(insertions=(Insertion(CLIENT, PUBLISH),)),
        _with(insertions=(Insertion(SERVER, Command(1, BasicDeliver())),)),
        _with(mirrored=(MirroredCopy(Command(1, BasicPublish(exchange=LONG))),)),
        _with(shown=PUBLISH.altered(BasicPublish(exchange=LONG))),
        _with(command=None, close=Close(Scope.CHANNEL, 70_000, "no")),
        _with(command=None, close=Close(Scope.CHANNEL, -1, "no")),
        _with(command=None, close=Close(Scope.CHANNEL, 403, LONG)),
        _with(command=None, close=Close(Scope.CHANNEL, 403, "\ud800")),
        _with(command=None, answer=Answer.RETURN, returned=(70_000, "no")),
        _with(command=None, answer=Answer.RETURN, returned=(312, LONG)),
    ],
)
def test_what_cannot_be_encoded(verdict: Verdict) -> None:
    check_types(verdict)
    with pytest.raises(Unsendable):
        check_verdict(verdict, PUBLISH)


@pytest.mark.parametrize(
    "changes",
    [
        {"command": "publish"},
        {"answer": "ack, please"},
        {"close": "now"},
        {"close": Close("session", 403, "no")},  # type: ignore[arg-type]
        {"delay": math.nan},
        {"delay": math.inf},
        {"delay": "soon"},
        {"delay": -1},
        {"behind": None},
        {"hold": "on"},
        {"hold": HoldAction("h", math.nan)},
        {"insertions": [PUBLISH]},
        {"insertions": None},
        {"insertions": (Insertion("client", PUBLISH),)},  # type: ignore[arg-type]
        {"mirrored": (MirroredCopy(Command(1, BasicAck(1))),)},
        {"impairments": (Impairment(CLIENT),)},
        {"impairments": (Latency(SERVER, delay=math.nan),)},
        {"shown": 7},
        {"marks": ("\ud800",)},
        {"logged": (("loud", "text"),)},
        {"logged": (("info", b"text"),)},
        {"damage": ((0, 256),)},
        {"returned": 312},
    ],
)
def test_what_is_of_no_right_type(changes: dict[str, Any]) -> None:
    with pytest.raises(Unsendable):
        check_types(_with(**changes))


def test_what_is_right_is_let_be() -> None:
    verdict = _with(
        command=PUBLISH.altered(BasicPublish(routing_key="other"), Properties(priority=3)),
        delay=1,
        hold=HoldAction("h", 2.5),
        insertions=(Insertion(CLIENT, Command(1, BasicAck(1, False))),),
        mirrored=(MirroredCopy(Command(1, BasicPublish(exchange="copies"))),),
        impairments=(Latency(SERVER, delay=1.0),),
        logged=(("info", "text"),),
        damage=((0, 255),),
    )
    check_types(verdict)
    check_verdict(verdict, PUBLISH)


RESULTS = {
    "a routing key over 255 bytes": "change(command, routing_key='x' * 256)",
    "a lone surrogate": "change(command, routing_key='\\ud800')",
    "bytes for a text": "change(command, routing_key=b'x')",
    "None for a text": "change(command, routing_key=None)",
    "a number for a text": "change(command, routing_key=5)",
    "a list for a text": "change(command, routing_key=['x'])",
    "a priority over 255": "change(command, properties=Properties(priority=256))",
    "a priority below 0": "change(command, properties=Properties(priority=-1))",
    "NaN for a number": "change(command, properties=Properties(priority=float('nan')))",
    "a timestamp over 64 bits": "change(command, properties=Properties(timestamp=2**64))",
    "a header of no type": "change(command, headers={'a': object()})",
    "a header over 64 bits": "change(command, headers={'a': 2**64})",
    "a nested table of no type": "change(command, headers={'a': [{'b': {1, 2}}]})",
    "a header's name over 255 bytes": "change(command, headers={'x' * 256: 1})",
    "a header's name that is no text": "change(command, headers={1: 1})",
    "None for headers": "Verdict(command=command.altered(None, Properties(headers='none')))",
    "a body that is no bytes": "change(command, body=5)",
    "a verdict of nothing": "Verdict(command='nothing')",
    "a reply code over 16 bits": "refuse('no', 70000)",
    "a reply code below 0": "refuse('no', -1)",
    "a reply text that is no text": "refuse('\\ud800')",
    "a delay that is none": "Verdict(command=command, delay=float('nan'))",
    "a publish for the client": "insert(command, (Peer.CLIENT, command))",
    "a delivery from the client": "Verdict(command=Command(command.channel, BasicDeliver()))",
    "an insertion of nothing": "Verdict(command=command, insertions=(1,))",
    "leaving": "exit()",
    "SystemExit": "(_ for _ in ()).throw(SystemExit(3))",
    "KeyboardInterrupt": "(_ for _ in ()).throw(KeyboardInterrupt())",
    "an exception of its own": "(_ for _ in ()).throw(Own())",
    "something else": "5",
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=list(RESULTS))
def test_whatever_a_script_comes_up_with_is_its_commands_trouble(result: str) -> None:
    source = f"""
from amqproxy.amqp091.methods import BasicDeliver
from amqproxy.rules.scripting import *

class Own(BaseException):
    def __str__(self):
        raise ValueError("no text")

def publish(command, context):
    return {result}
"""
    made = rule('action = "script"\nfile = "rules.py"', Shelf({"rules.py": source}))
    rules = RuleSet([made])
    verdict = rules.evaluator(GUEST).evaluate(from_client(BasicPublish(exchange="orders"), body=b"abc"))
    assert verdict.close is not None
    assert (verdict.close.scope, verdict.close.code) == (Scope.CHANNEL, 541)
    assert rules.counts()["r"].errors == 1
    [(name, text)] = verdict.failures
    assert name == "r"
    assert text.startswith("rule 'r' failed: ")


@pytest.mark.parametrize("leaving", ["raise SystemExit(0)", "raise KeyboardInterrupt", "import sys; sys.exit()"])
def test_a_script_that_would_leave_while_it_is_loaded_is_wrong(leaving: str) -> None:
    for source in (leaving, f"def load(context):\n    {leaving}\ndef publish(command, context): pass"):
        with pytest.raises(ValueError, match=r"rules\.py:\d: (SystemExit|KeyboardInterrupt)"):
            rule('action = "script"\nfile = "rules.py"', Shelf({"rules.py": source}))


def test_a_function_that_would_leave_is_its_messages_trouble() -> None:
    def leave(body: bytes, context: object) -> bytes:
        raise SystemExit

    keys = 'action = "rewrite"\n[body]\ncall = "ours:leave"'
    rules = RuleSet([rule(keys, Shelf(functions={"ours:leave": leave}))])
    verdict = rules.evaluator(GUEST).evaluate(from_client(BasicPublish(), body=b"abc"))
    assert verdict.close is not None
    assert verdict.close.code == 541
