"""Python of the config's, and its faults."""

from __future__ import annotations

import json

import pytest

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.rules.scripting import script_loader
from tests.rules.scene import Shelf


def test_every_method_has_a_hook_of_its_own() -> None:
    assert sorted(script_loader.HOOKS.values()) == sorted(BY_NAME)
    for name, method in {
        "publish": "basic.publish",
        "get_ok": "basic.get-ok",
        "return_": "basic.return",
        "ack": "basic.ack",
        "queue_declare": "queue.declare",
        "connection_start_ok": "connection.start-ok",
        "tx_commit": "tx.commit",
        "recover_async": "basic.recover-async",
    }.items():
        assert script_loader.HOOKS[name] == method
    assert all(name.isidentifier() for name in script_loader.HOOKS)
    assert not {script_loader.LOAD, script_loader.ANY} & script_loader.HOOKS.keys()


def test_functions_of_a_script() -> None:
    found = script_loader.hooks(
        "from json import dumps\n"
        "LIMIT = 5\n"
        "def load(context): pass\n"
        "def publish(command, context): return _private(command)\n"
        "def command(sent, anything, more=1): return None\n"
        "def _private(command, context=None): return None\n"
        "def spelled_as_one_likes(command): return None\n",
        "r.py",
    )
    assert sorted(found) == ["command", "load", "publish"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def publish(command, context)\n  pass", r"r.py:1: expected ':'"),
        ("import no_such_module", r"r.py:1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("x = 1\n\nraise KeyError('x')", r"r.py:3: KeyError: 'x'"),
        ("def f():\n  assert False\nf()", r"r.py:2: AssertionError$"),
        ("x\0", r"null bytes"),
        ("def publish(command): pass", r"r.py:1: `publish` must take \(command, context\)"),
        ("\ndef load(): pass", r"r.py:2: `load` must take \(context\)"),
        ("def publish(command, context, more): pass", r"must take \(command, context\)"),
        (
            "def pubilsh(command, context): pass",
            r"r.py:1: `pubilsh` is not named for a method: did you mean `publish`\?",
        ),
        ("def zzz(command, context): pass", r"r.py:1: `zzz` is not named for a method$"),
        ("async def publish(command, context): pass", r"must be a plain function"),
        ("def publish(command, context): yield", r"must be a plain function"),
        ("def load(context): pass", r"no function for any method"),
        ("", r"no function for any method"),
    ],
)
def test_errors_have_file_and_line(source: str, reason: str) -> None:
    with pytest.raises(script_loader.ScriptError, match=reason):
        script_loader.hooks(source, "r.py")


def test_the_outline_of_an_error_has_no_data_of_a_peer() -> None:
    with pytest.raises(script_loader.ScriptError) as caught:
        script_loader.module("\nraise ValueError('card 1234')", "r.py")
    assert (str(caught.value), caught.value.outline) == ("r.py:2: ValueError: card 1234", "r.py:2: ValueError")
    assert script_loader.fault(caught.value, "other.py") is caught.value


def test_a_function_by_its_name() -> None:
    shelf = Shelf(
        {"lib/own.py": "def double(body, context):\n    return body * 2\n"}, functions={"json:dumps": json.dumps}
    )
    found, file = script_loader.function("lib/own.py:double", shelf)
    assert (found(b"x", None), file) == (b"xx", "lib/own.py")
    assert script_loader.function("json:dumps", shelf)[0] is json.dumps
    for name, reason in (
        ("double", "not of the form"),
        ("lib/own.py:", "not of the form"),
        ("lib/own.py:triple", "lib/own.py has no function `triple`"),
        ("lib/none.py:double", "there is no lib/none.py"),
        ("json:nothing", "there is no json:nothing"),
    ):
        with pytest.raises(ValueError, match=reason):
            script_loader.function(name, shelf)
