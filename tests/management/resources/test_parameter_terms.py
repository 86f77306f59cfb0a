"""RabbitMQ's texts about parameters that are not valid."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.management.failure import Failure
from amqproxy.management.resources.parameter_terms import MOST_FAULTS, check_parameter, erlang_term

ENDS = {"src-uri": "amqp://a", "src-queue": "q", "dest-uri": "amqps://b"}


@pytest.mark.parametrize(
    ("component", "value"),
    [
        ("federation-upstream", {"uri": "amqp://h", "expires": 1, "trust-user-id": True}),
        ("federation-upstream", {"uri": []}),
        ("federation-upstream-set", [{"upstream": "u", "queue": "q"}]),
        ("shovel", ENDS),
        ("shovel", ENDS | {"src-delete-after": "queue-length", "dest-queue": "d", "reconnect-delay": 1.5}),
        ("shovel", ENDS | {"dest-protocol": "amqp10", "dest-address": "/a"}),
    ],
)
def test_a_valid_parameter_passes(component: str, value: Any) -> None:
    check_parameter(component, "n", value, is_4=True)


@pytest.mark.parametrize(
    ("component", "value", "text"),
    [
        ("none", {}, "component none not found"),
        ("federation-upstream", {}, 'Key "uri" not found in n'),
        ("federation-upstream", {"uri": 7}, "uri should be list, actually was 7"),
        ("federation-upstream", {"uri": ["http://a"]}, '"http://a" not a valid URI: '),
        ("federation-upstream", {"uri": "amqp://[x"}, '"amqp://[x" not a valid URI: '),
        ("federation-upstream-set", {}, "n should be list, actually was #{}"),
        ("federation-upstream-set", [7], "Unrecognised terms [7] in n"),
        ("shovel", {}, "Must specify 'src-exchange' or 'src-queue'"),
        ("shovel", ENDS | {"dest-queue": "a", "dest-exchange": "b"}, "Cannot specify 'dest-exchange' and 'dest-queue'"),
        ("shovel", ENDS | {"x": [True, None]}, 'Unrecognised terms [{<<"x">>,[true,null]}] in n'),
        ("shovel", ENDS | {"src-delete-after": True}, "src-delete-after should be a number greater than"),
    ],
)
def test_an_invalid_parameter_is_refused_in_rabbitmqs_words(component: str, value: Any, text: str) -> None:
    with pytest.raises(Failure) as refused:
        check_parameter(component, "n", value, is_4=True)
    assert refused.value.status == 400
    assert refused.value.body["reason"].startswith(f"Validation failed\n\n{text}")


def test_rabbitmq_3_10_writes_the_text_as_html() -> None:
    with pytest.raises(Failure) as refused:
        check_parameter("shovel", "n", ENDS | {"ack-mode": "x"}, is_4=False)
    assert 'actually was &lt;&lt;"x"&gt;&gt;' in refused.value.body["reason"]


def test_terms_are_written_as_erlang_prints_them() -> None:
    assert erlang_term({"a": [1, "b", 1.5]}) == '#{<<"a">> => [1,<<"b">>,1.5]}'


@pytest.mark.parametrize(("component", "value"), [("federation-upstream-set", [0] * 50_000)])
def test_only_some_of_many_faults_are_named(component: str, value: Any) -> None:
    with pytest.raises(Failure) as refused:
        check_parameter(component, "n", value, is_4=False)
    assert refused.value.body["reason"].count("Unrecognised") <= MOST_FAULTS
