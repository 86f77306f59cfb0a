"""What a session needs of the protocol that its client speaks."""

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
    """One protocol, as sessions speak it: where a third one would begin.

    `new_traffic` makes what relays between both transports, once the upstream is connected. `pack_leg` makes a value
    of a leg whose connection is open, None where that needs more; `unpack_leg` has a new leg be as the `packed` one
    was, given the start-ok controls decoded before. `packed_leg` is the type of that value.
    """

    new_traffic: NewTraffic
    packed_leg: type[PackedLeg]
    pack_leg: Callable[[Any], PackedLeg | None]
    unpack_leg: Callable[[Any, Any, dict[bytes, Any]], None]
