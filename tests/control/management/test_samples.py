"""Samples of the broker's counts: what changed since an earlier one, for any number of readers."""

from __future__ import annotations

from typing import Any

from amqproxy.control.management.samples import LOOKED_AT, Samples
from tests.control.served import Serving


def rows(samples: Samples, since: int) -> dict[tuple[str, str], tuple[int, ...]]:
    """The rows of a sample by kind and name."""
    revision, *found = [each for each in samples.since(since) if each is not None]
    assert revision == samples.revision
    found_rows: list[Any] = found
    return {(kind, name): numbers for kind, _, name, _, numbers in found_rows}


def test_only_what_changed_since_is_listed() -> None:
    serving = Serving()
    samples = Samples(serving.broker, serving.served)
    first = rows(samples, 0)
    assert ("queues", "q") not in first
    assert first["vhosts", "/"][:3] == (0, 0, 0)
    serving.client.publish("", "q")
    second = rows(samples, 1)
    assert second["queues", "q"][:3] == (1, 0, 1)
    assert second["vhosts", "/"][:3] == (1, 0, 1)
    assert second["exchanges", ""] == (1, 1)
    assert second["channels", "client -> broker (1)"][0] == 1
    assert ("overview", "") not in second
    assert rows(samples, 2) == {}
    assert rows(samples, 1) == second
    serving.broker.vhosts["/"].queues["q"].purge()
    assert rows(samples, 4) == {
        ("queues", "q"): (0, *second["queues", "q"][1:]),
        ("vhosts", "/"): (0, *second["vhosts", "/"][1:]),
    }


def test_the_objects_of_a_client_that_is_gone_are_forgotten() -> None:
    serving = Serving()
    samples = Samples(serving.broker, serving.served)
    assert ("channels", "client -> broker (1)") in rows(samples, 0)
    kept = len(samples._seen)
    serving.served.clear()
    rows(samples, 1)
    assert len(samples._seen) == kept - 1


def test_other_tasks_have_their_turn_between_idle_queues() -> None:
    serving = Serving()
    for number in range(3 * LOOKED_AT):
        serving.client.declare(f"idle{number}")
    found = list(Samples(serving.broker, serving.served).since(0))
    assert found.count(None) >= 4
    assert not [each for each in found if isinstance(each, tuple) and each[0] == "queues"]


def test_a_row_tells_whether_its_object_is_new() -> None:
    serving = Serving()
    samples = Samples(serving.broker, serving.served)
    news: list[set[str]] = []
    for _ in range(2):
        serving.client.publish("", "q")
        found: list[Any] = [each for each in samples.since(samples.revision) if isinstance(each, tuple)]
        news.append({kind for kind, _, _, is_new, _ in found if is_new})
    assert {"queues", "exchanges", "channels", "vhosts"} <= news[0]
    assert news[1] == set()
