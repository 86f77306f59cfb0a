"""Text of a finding about an upgrade."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rabbitmq.incompatibility import INCOMPATIBILITIES, Incompatibility
from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.taps.findings.rabbitmq4.upgrade_detector import TARGET
from amqproxy.taps.findings.rabbitmq4.use_text import UNKNOWN_CLIENT, UseText, client_of
from amqproxy.taps.trace.handshake_facts import HandshakeFacts


@pytest.mark.parametrize("user", [None, "shop", "o'by (x)"])
@pytest.mark.parametrize("each", INCOMPATIBILITIES.values(), ids=INCOMPATIBILITIES)
def test_its_parts_are_found_again(each: Incompatibility, user: str | None) -> None:
    for profile in (TARGET, TARGET.switching({"transient_nonexcl_queues": False, "global_qos": True}), PROFILES["4.0"]):
        effect = each.effect(profile)
        if effect is not None:
            text = UseText("queue made by us is declared", "amqplib 0.10.3", user, "4.3", effect.text)
            assert UseText.parsed(str(text)) == text


DECOY = st.sampled_from(
    [' by "', '"', " by ", ' (user "', " (user x)", '"): RabbitMQ 4.3 ', ": RabbitMQ 4.3 takes it", "\n", "q"]
)
NAME = st.lists(DECOY, max_size=6).map("".join)


@given(use=NAME, client=NAME, user=st.none() | NAME)
def test_no_name_passes_for_the_rest_of_the_text(use: str, client: str, user: str | None) -> None:
    parsed = UseText.parsed(str(UseText(use, client, user, "4.3", "ignores it")))
    unquoted = [None if each is None else each.replace('"', "'") for each in (client, user)]
    assert parsed == (use, *unquoted, "4.3", "ignores it")


def test_another_text_has_no_parts() -> None:
    assert UseText.parsed("1 messages were nacked") is None


def test_a_client_is_named_as_far_as_it_is_known() -> None:
    facts = HandshakeFacts()
    assert client_of(facts) == UNKNOWN_CLIENT
    facts.client_properties = {"product": "pika", "version": {"not": "text"}}
    assert client_of(facts) == "pika"
    facts.client_properties = {"product": "p" * 100, "version": "1.3.2"}
    assert client_of(facts) == f"{'p' * 64} 1.3.2"
