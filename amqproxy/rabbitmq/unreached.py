"""Behaviours of RabbitMQ's versions that the integrated broker does not have, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Unreached(NamedTuple):
    """A behaviour of these versions of RabbitMQ, the behaviour of the broker in its place, and the reason."""

    versions: tuple[str, ...]
    rabbitmq: str
    ours: str
    why: str


UNREACHED: Mapping[str, Unreached] = {
    "two levels": Unreached(
        ("4.0",),
        "Quorum queues have two levels of priority: two high messages come for each normal one, unless it is older.",
        "They ignore priorities, as in 3.10.",
        "4.1 replaced it: it needs the order of messages across levels, which no other queue needs.",
    ),
    "stored priorities": Unreached(
        ("4.3",),
        "Quorum queues deliver by priority after a restart, too.",
        "They have priorities in memory only: with `data`, they ignore them.",
        "The level of a stored message would depend on the version with which the broker was started before.",
    ),
    "property bytes": Unreached(
        ("4.3",),
        "Properties count in the x-max-length-bytes of a quorum queue.",
        "Bodies alone count.",
        "The bytes of waiting properties are kept nowhere, neither in memory nor in the journal.",
    ),
    "expiry of each level": Unreached(
        ("4.3",),
        "Messages of a quorum queue expire at the head of each level of priority.",
        "They expire at the head of the queue, as in a classic queue with priorities.",
        "The count of ready messages is right once a message before them is taken.",
    ),
    "cancelled consumers": Unreached(
        ("4.3",),
        "Only quorum queues have an acknowledgement timeout, also by x-consumer-timeout: it cancels the consumer.",
        "Channels are closed with 406, for all types of queues, as in 3.10 and 4.0; x-consumer-timeout has no effect.",
        "A timer for each delivery would cost memory: the oldest delivery of each channel is looked at once a minute.",
    ),
    "long bodies": Unreached(
        ("3.10", "4.0"),
        "A body that is longer than its header announces is not answered: the broker waits for the rest.",
        "It is a FRAME_ERROR (501), as in 4.3.",
        "A client with such an error would wait for ever.",
    ),
    "AMQP 1.0": Unreached(
        ("4.0", "4.3"),
        "AMQP 1.0 is spoken on the same port.",
        "The client gets the header of 0-9-1.",
        "The broker does not have AMQP 1.0.",
    ),
}
"""By the names by which tests skip them."""
