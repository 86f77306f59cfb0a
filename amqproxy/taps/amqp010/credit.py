"""Changes of a subscription's credit by 0-10 commands. Section 10.2."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.commands import MessageFlow, MessageSetFlowMode, MessageStop, MessageSubscribe
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, CreditUnit, FlowMode
from amqproxy.taps.credit import BYTES, MESSAGES, CreditChange

_UNITS: dict[int, str] = {CreditUnit.MESSAGE: MESSAGES, CreditUnit.BYTE: BYTES}


def credit_change(command: Any) -> CreditChange | None:
    """Return the change of credit that a command requests; `None` if it is not about credit."""
    match command:
        case MessageSubscribe():
            is_held = command.accept_mode != AcceptMode.NONE and command.acquire_mode != AcquireMode.NOT_ACQUIRED
            return CreditChange(
                consumer_tag=command.destination or "", holds_of=(command.queue or "") if is_held else None
            )
        case MessageSetFlowMode():
            return CreditChange(consumer_tag=command.destination or "", is_window=command.flow_mode == FlowMode.WINDOW)
        case MessageFlow():
            unit = _UNITS.get(command.unit or 0, "")
            return CreditChange(consumer_tag=command.destination or "", unit=unit, given=command.value or 0)
        case MessageStop():
            return CreditChange(consumer_tag=command.destination or "", ends=True)
    return None
