"""Properties of a queued message as a JMS selector sees them: JMS header fields, and the message's properties."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.errors import ProtocolError as ProtocolError010
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.properties import Properties
from amqproxy.broker.amqp010.jms_selector import JmsSelector
from amqproxy.broker.amqp010.message_conversion import structs_of
from amqproxy.broker.message import Message

USUAL_PRIORITY = 4
PERSISTENT = 2


class JmsProperties:
    """Properties of one message by name."""

    __slots__ = ("_properties", "_timestamp")

    def __init__(self, properties: Properties) -> None:
        self._properties = properties
        self._timestamp: int | None = -1
        """The timestamp, -1 until it is asked for: a selector may ask often, and it takes a conversion of all headers.
        """

    def get(self, name: str) -> Any:
        """Return a text, a number or a boolean; None if the property is absent or of another type."""
        properties = self._properties
        match name:
            case "JMSMessageID":
                found: Any = None if properties.message_id is None else f"ID:{properties.message_id}"
            case "JMSCorrelationID":
                found = properties.correlation_id
            case "JMSType":
                found = properties.type
            case "JMSPriority":
                found = USUAL_PRIORITY if properties.priority is None else properties.priority
            case "JMSDeliveryMode":
                found = "PERSISTENT" if properties.delivery_mode == PERSISTENT else "NON_PERSISTENT"
            case "JMSTimestamp":
                if self._timestamp == -1:
                    self._timestamp = structs_of(properties)[0].timestamp
                found = self._timestamp
            case _:
                found = None if properties.headers is None else properties.headers.get(name)
        return found if isinstance(found, str | int | float) else None


def is_selected(message: Message, selector: JmsSelector) -> bool:
    """Return whether a selector chooses this message; False if its properties are malformed."""
    try:
        return selector.matches(JmsProperties(message.properties).get)
    except (ProtocolError, ProtocolError010):
        return False
