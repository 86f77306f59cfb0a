"""Phases of a switch, and the events that lead from one to another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Phase(StrEnum):
    """Phase of a switch; its source and its target are the upstreams that were named when it was begun."""

    AT_SOURCE = "at source"
    CLIENTS_TO_TARGET = "clients to target"
    """New clients reach the target; those of the source are told 320."""
    MESSAGES_TO_TARGET = "messages to target"
    """The source has none of the clients left; its messages are moved."""
    AT_TARGET = "at target"
    CLIENTS_TO_SOURCE = "clients to source"
    MESSAGES_TO_SOURCE = "messages to source"


class SwitchEvent(StrEnum):
    """Event in the life of a switch."""

    FORTH = "forth"
    """An operator wants the clients at the target."""
    BACK = "back"
    """An operator wants the clients at the source."""
    CLIENTS_GONE = "clients gone"
    """The last client has left the upstream that is left."""
    EMPTIED = "emptied"
    """All queues of the upstream that is left are empty."""
    RESTARTED = "restarted"
    """The proxy was started: clients may have come meanwhile that it does not know."""


TRANSITIONS: Mapping[Phase, Mapping[SwitchEvent, Phase]] = {
    Phase.AT_SOURCE: {SwitchEvent.FORTH: Phase.CLIENTS_TO_TARGET},
    Phase.CLIENTS_TO_TARGET: {
        SwitchEvent.CLIENTS_GONE: Phase.MESSAGES_TO_TARGET,
        SwitchEvent.BACK: Phase.CLIENTS_TO_SOURCE,
    },
    Phase.MESSAGES_TO_TARGET: {
        SwitchEvent.EMPTIED: Phase.AT_TARGET,
        SwitchEvent.BACK: Phase.CLIENTS_TO_SOURCE,
        SwitchEvent.RESTARTED: Phase.CLIENTS_TO_TARGET,
    },
    Phase.AT_TARGET: {SwitchEvent.BACK: Phase.CLIENTS_TO_SOURCE},
    Phase.CLIENTS_TO_SOURCE: {
        SwitchEvent.CLIENTS_GONE: Phase.MESSAGES_TO_SOURCE,
        SwitchEvent.FORTH: Phase.CLIENTS_TO_TARGET,
    },
    Phase.MESSAGES_TO_SOURCE: {
        SwitchEvent.EMPTIED: Phase.AT_SOURCE,
        SwitchEvent.FORTH: Phase.CLIENTS_TO_TARGET,
        SwitchEvent.RESTARTED: Phase.CLIENTS_TO_SOURCE,
    },
}
"""The next phase for each event that changes something; others change nothing."""

SETTLED = frozenset({Phase.AT_SOURCE, Phase.AT_TARGET})
"""Phases in which nothing is on its way."""

LEAVING = frozenset({Phase.CLIENTS_TO_TARGET, Phase.CLIENTS_TO_SOURCE})
"""Phases in which clients are told to reconnect."""

MOVING = frozenset({Phase.MESSAGES_TO_TARGET, Phase.MESSAGES_TO_SOURCE})
"""Phases in which messages are moved."""

TOWARDS_TARGET = frozenset({Phase.CLIENTS_TO_TARGET, Phase.MESSAGES_TO_TARGET, Phase.AT_TARGET})
"""Phases in which the target takes new clients."""
