"""Commands about credit."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import (
    MessageCancel,
    MessageFlow,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
)
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, CreditUnit, FlowMode
from amqproxy.taps.amqp010.credit import credit_change
from amqproxy.taps.credit import BYTES, INFINITE, MESSAGES, CreditChange


@pytest.mark.parametrize(
    ("command", "change"),
    [
        (MessageSubscribe(queue="q", destination="c"), CreditChange(consumer_tag="c", holds_of="q")),
        (
            MessageSubscribe(queue="q", destination="c", accept_mode=AcceptMode.NONE),
            CreditChange(consumer_tag="c"),
        ),
        (
            MessageSubscribe(queue="q", destination="c", acquire_mode=AcquireMode.NOT_ACQUIRED),
            CreditChange(consumer_tag="c"),
        ),
        (
            MessageSetFlowMode(destination="c", flow_mode=FlowMode.WINDOW),
            CreditChange(consumer_tag="c", is_window=True),
        ),
        (
            MessageSetFlowMode(destination="c", flow_mode=FlowMode.CREDIT),
            CreditChange(consumer_tag="c", is_window=False),
        ),
        (
            MessageFlow(destination="c", unit=CreditUnit.MESSAGE, value=9),
            CreditChange(consumer_tag="c", unit=MESSAGES, given=9),
        ),
        (
            MessageFlow(destination="c", unit=CreditUnit.BYTE, value=INFINITE),
            CreditChange(consumer_tag="c", unit=BYTES, given=INFINITE),
        ),
        (MessageFlow(destination="c", unit=7, value=1), CreditChange(consumer_tag="c", given=1)),
        (MessageStop(destination="c"), CreditChange(consumer_tag="c", ends=True)),
        (MessageCancel(destination="c"), None),
    ],
)
def test_each_command_about_credit_is_a_change(command: object, change: CreditChange | None) -> None:
    assert credit_change(command) == change
