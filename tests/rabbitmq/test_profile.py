"""The table of behaviours by version, and the page that shows it."""

import os
from pathlib import Path

import pytest

from amqproxy.rabbitmq.profile import NEWEST, OLDEST, PROFILES, behaviours
from amqproxy.rabbitmq.unreached import UNREACHED

PAGE = Path(__file__).parents[2] / "docs" / "rabbitmq-versions.md"
START = "| behaviour |"


def shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        return "`AMQP " + " ".join(map(str, value[4:])) + "`"
    if isinstance(value, dict):
        return "<br>".join(f"{name}: {phase.replace('_', ' ')}" for name, phase in value.items()) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else f"`{value}`" if isinstance(value, str) else f"{value:,}"


def table() -> str:
    rows = [f"{START} {' | '.join(PROFILES)} |", "| --- |" + " --- |" * len(PROFILES)]
    for name, text in behaviours():
        values = " | ".join(shown(getattr(each, name)) for each in PROFILES.values())
        rows.append(f"| {text} | {values} |")
    return "\n".join(rows) + "\n"


def unreached() -> str:
    rows = ["| RabbitMQ | does | the broker | because |", "| --- | --- | --- | --- |"]
    for each in UNREACHED.values():
        rows.append(f"| {', '.join(each.versions)} | {each.rabbitmq} | {each.ours} | {each.why} |")
    return "\n".join(["", "The broker does not do these:", "", *rows, ""])


def test_the_page_shows_the_table() -> None:
    """With UPDATE_PAGES=1, the page is written."""
    head, _, _ = PAGE.read_text().partition(START)
    if os.environ.get("UPDATE_PAGES"):
        PAGE.write_text(head + table() + unreached())
    assert PAGE.read_text() == head + table() + unreached()


def test_little_is_not_reached() -> None:
    assert len(UNREACHED) <= 10
    assert {version for each in UNREACHED.values() for version in each.versions} <= set(PROFILES)


def test_each_behaviour_is_described_and_differs() -> None:
    for name, text in behaviours():
        assert text.endswith((".", "…")), name
        assert len({str(getattr(each, name)) for each in PROFILES.values()}) > 1, name


def test_the_versions_are_in_order() -> None:
    assert list(PROFILES) == ["3.10", "4.0", "4.3"]
    assert PROFILES["3.10"] is OLDEST
    assert NEWEST == "4.3"


def test_features_are_permitted_by_their_phase_or_by_the_operator() -> None:
    profile = PROFILES["4.3"]
    assert profile.permits("transient_nonexcl_queues")
    assert not profile.permits("global_qos")
    assert profile.switching({"global_qos": True}).permits("global_qos")
    assert not profile.switching({"ram_node_type": True}).permits("ram_node_type")
    assert OLDEST.permits("global_qos")


def test_an_unknown_feature_is_named() -> None:
    with pytest.raises(ValueError, match=r"RabbitMQ 4\.3 has no deprecated feature 'global_quality'; it has: amqp_"):
        PROFILES["4.3"].switching({"global_quality": True})
