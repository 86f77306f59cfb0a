"""The interface between a session and the protocol of its client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import trio

from amqproxy.peer import Peer
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.session.closing import Closing
from amqproxy.proxy.session.packed_leg import PackedLeg
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionLife
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport

NewTraffic = Callable[
    [
        Mapping[Peer, Transport],
        Client,
        SessionLife,
        Closing,
        SessionReport,
        trio.CancelScope,
        SessionServices,
        MemoryShare,
    ],
    Traffic,
]


class Dialect(NamedTuple):
    """One protocol, as sessions use it: the extension point for a third one.

    `new_traffic` creates the traffic between both transports, once the upstream is connected. `pack_leg` packs a leg of
    an open connection into a value, or returns `None` if that is impossible; `unpack_leg` restores a `packed` leg into
    a new one, given a cache of decoded start-ok controls. `packed_leg` is the type of that value.
    """

    new_traffic: NewTraffic
    packed_leg: type[PackedLeg]
    pack_leg: Callable[[Any], PackedLeg | None]
    unpack_leg: Callable[[Any, Any, dict[bytes, Any]], None]
