"""The answers of our management API beside those of RabbitMQ's, for the same estate and the same requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from tests.management.api import Api, definitions
from tests.management.changes import CHANGES, Change
from tests.management.likeness import differences
from tests.management.own_api import ORIGIN, own
from tests.management.requests import OF_4, REQUESTS, Asked
from tests.real.ports import free_port
from tests.real.rabbitmq import running
from tests.real.rabbitmq_installation import installation

pytestmark = [pytest.mark.real, pytest.mark.once]

PLUGINS = {
    "3.10": ["rabbitmq_management", "rabbitmq_shovel_management", "rabbitmq_federation_management"],
    "4.3": [
        *("rabbitmq_management", "rabbitmq_shovel_management", "rabbitmq_federation_management"),
        "rabbitmq_stream_management",
    ],
}
"""Plugins whose paths this API has."""


class Pair(NamedTuple):
    """RabbitMQ's API and ours."""

    theirs: Api
    ours: Api
    is_4: bool


CORS = ("access-control-allow-origin", "access-control-allow-credentials", "access-control-allow-headers")
"""Headers by which browsers decide; methods differ where a path of ours has fewer."""


@contextmanager
def real(directory: Path, minor: str) -> Iterator[Api]:
    """RabbitMQ's own management plugin, with the estate."""
    port = free_port()
    settings = {
        "management.tcp.port": port,
        "management.tcp.ip": "127.0.0.1",
        "collect_statistics_interval": 1000,
        "listeners.ssl": "none",
        "management.cors.allow_origins.1": ORIGIN,
    }
    if minor == "4.3":
        settings["stream.listeners.tcp.1"] = f"127.0.0.1:{free_port()}"
    with running(directory, installation(minor), settings, PLUGINS[minor]) as node:
        api = Api(port, node.port)
        done = api.ask("POST", "definitions", definitions(node.profile.version))
        assert done.status == 204, done
        yield api


@pytest.fixture(scope="module")
def changed(pair: Pair) -> Pair:
    """The pair, whose changes begin: its other tests are done."""
    return pair


@pytest.fixture(scope="module", params=["3.10", "4.3"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    minor = request.param
    with ExitStack() as stack:
        theirs = stack.enter_context(real(tmp_path_factory.mktemp("theirs"), minor))
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        ours = stack.enter_context(own(tmp_path_factory.mktemp("ours"), minor, monkeypatch))
        for each in (theirs, ours):
            stack.callback(each.connected().close)
        yield Pair(theirs, ours, minor == "4.3")


def asked_of(api: Api, asked: Asked) -> str:
    """The path with this API's names."""
    path = asked.path
    if "{" in path:
        [connection] = api.get("connections?columns=name")
        names = {
            "node": api.get("overview?columns=node")["node"],
            "connection": connection["name"],
            "channel": f"{connection['name']} (1)",
        }
        path = path.format(**{name: quote(value, safe="") for name, value in names.items()})
    return path


def _check_known(pair: Pair, path: str) -> None:
    if OF_4.match(path) and not pair.is_4:
        pytest.skip("a path of RabbitMQ 4")


@pytest.mark.parametrize("asked", REQUESTS, ids=str)
def test_an_answer_is_rabbitmqs(pair: Pair, asked: Asked) -> None:
    _check_known(pair, asked.path)
    theirs, ours = (
        api.ask(asked.method, asked_of(api, asked), user=asked.user, password=asked.password)
        for api in (pair.theirs, pair.ours)
    )
    if theirs.status == 500:
        pytest.skip("RabbitMQ itself fails")
    found = differences(theirs, ours, asked.path)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("origin", [ORIGIN, "https://other.example"])
@pytest.mark.parametrize(("method", "path"), [("GET", "whoami"), ("GET", "nope"), ("OPTIONS", "queues/%2F/limited")])
def test_pages_of_other_sites_are_told_the_same(pair: Pair, method: str, path: str, origin: str) -> None:
    headers = {"Origin": origin, "Access-Control-Request-Headers": "authorization"}
    theirs, ours = (
        {name: value for name, value in api.ask(method, path, headers=headers).headers.items() if name in CORS}
        for api in (pair.theirs, pair.ours)
    )
    assert theirs == ours
    assert bool(ours) is (origin == ORIGIN)


@pytest.mark.parametrize("change", CHANGES, ids=[f"{number}-{each}" for number, each in enumerate(CHANGES)])
def test_a_change_is_rabbitmqs(changed: Pair, change: Change) -> None:
    """The changes are made in their order; each answer is compared, and the ones that read show what was changed."""
    _check_known(changed, change.path)
    apis = (changed.theirs, changed.ours)
    theirs, ours = (api.ask(change.method, change.path, change.body, user=change.user) for api in apis)
    if change.has_own_text:
        assert theirs.status == ours.status == 400
        return
    found = differences(theirs, ours, change.path) if theirs.status != 500 else []
    assert not found, "\n".join(found)
