"""What the return of messages does, by queue type and version."""

from __future__ import annotations

import pytest

from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.workbench.disturbance import Disturbance, Disturbed, disturbance_of
from amqproxy.workbench.queue_facts import QueueFacts, QueueType


def facts(
    version: str, kind: QueueType, limit: int | None = None, *, is_known: bool = False, consumers: int = 0
) -> QueueFacts:
    return QueueFacts(
        name="q",
        vhost="/",
        type=kind,
        messages=1,
        consumers=consumers,
        delivery_limit=limit,
        is_limit_known=is_known,
        profile=PROFILES[version],
    )


@pytest.mark.parametrize("version", ["3.10", "4.0", "4.3"])
def test_a_classic_queue_keeps_its_order(version: str) -> None:
    found = disturbance_of(facts(version, "classic"))
    assert (found.by_closing, found.fatal_count) == (False, None)
    assert "old places" in found.lines[-1]


def test_a_stream_is_not_disturbed() -> None:
    assert disturbance_of(facts("3.10", "stream")) == Disturbance(
        lines=("A stream is read from an offset: nothing in it changes.",)
    )


@pytest.mark.parametrize("kind", ["", "quorum"])
def test_no_return_counts_from_4_3_on(kind: QueueType) -> None:
    found = disturbance_of(facts("4.3", kind))
    assert (found.by_closing, found.fatal_count) == (False, None)


@pytest.mark.parametrize("version", ["3.10", "4.0"])
@pytest.mark.parametrize("kind", ["", "quorum"])
def test_an_unknown_limit_is_refused_before(version: str, kind: QueueType) -> None:
    with pytest.raises(Disturbed, match="--api"):
        disturbance_of(facts(version, kind))


def test_a_known_limit_is_respected() -> None:
    found = disturbance_of(facts("4.0", "quorum", 20, is_known=True))
    assert (found.by_closing, found.fatal_count) == (False, 20)
    assert "returned 20 times" in found.lines[-1]


def test_without_a_limit_the_channel_is_closed_to_keep_the_order() -> None:
    found = disturbance_of(facts("3.10", "quorum", None, is_known=True))
    assert (found.by_closing, found.fatal_count) == (True, None)


@pytest.mark.parametrize(("consumers", "text"), [(1, "1 consumer:"), (2, "2 consumers:")])
def test_consumers_are_named(consumers: int, text: str) -> None:
    assert any(text in line for line in disturbance_of(facts("4.3", "classic", consumers=consumers)).lines)
