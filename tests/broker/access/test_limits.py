"""Limits that are none."""

import re
from typing import Any

import pytest

from amqproxy.broker.access.limits import USER_LIMITS, VHOST_LIMITS, check_limits
from amqproxy.broker.access.users import User
from amqproxy.broker.vhost import VirtualHost


@pytest.mark.parametrize("limits", [{}, {"max-queues": 5, "max-connections": -1}, {"max-queues": 0}])
def test_what_is_taken(limits: dict[str, int]) -> None:
    check_limits(limits, VHOST_LIMITS)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max-channels": 1}, "Unrecognised terms ['max-channels'] in limits"),
        ({"max-queues": "5"}, "max-queues should be a number, actually was '5'"),
        ({"max-queues": 1.5}, "max-queues should be a number, actually was 1.5"),
        ({"max-queues": True}, "max-queues should be a number, actually was True"),
        ({"max-queues": None}, "max-queues should be a number, actually was None"),
    ],
)
def test_what_is_not(limits: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        check_limits(limits, VHOST_LIMITS)


def test_those_before_stay() -> None:
    user, vhost = User("u", ""), VirtualHost("v")
    user.set_limits(dict.fromkeys(USER_LIMITS, 3))
    vhost.set_limits(dict.fromkeys(VHOST_LIMITS, 4))
    with pytest.raises(ValueError, match="Unrecognised terms"):
        user.set_limits({"max-queues": 1})
    with pytest.raises(ValueError, match="Unrecognised terms"):
        vhost.set_limits({"max-channels": 1})
    assert (user.limits, vhost.limits) == (dict.fromkeys(USER_LIMITS, 3), dict.fromkeys(VHOST_LIMITS, 4))
