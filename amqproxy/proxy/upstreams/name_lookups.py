"""Look-ups of the host names whose addresses are members of their own: answers with several addresses, and new ones."""

from __future__ import annotations

import socket
from collections.abc import Callable

import trio

from amqproxy.configuration.values import join_address, split_address
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.group_tasks import GroupTasks

TIMEOUT = 5.0
"""Seconds for one look-up."""


class NameLookups(GroupTasks):
    """Look-ups for all groups that `groups` returns; `on_change` is called after members have come or gone.

    A look-up that fails, or finds no address, changes nothing.
    """

    def __init__(self, groups: Callable[[], list[UpstreamGroup]], on_change: Callable[[], None]) -> None:
        super().__init__(groups)
        self._on_change = on_change

    def _start(self, group: UpstreamGroup, nursery: trio.Nursery) -> None:
        for name in group.names:
            nursery.start_soon(self._watch, group, name)

    async def _watch(self, group: UpstreamGroup, name: str) -> None:
        fault = ""
        while True:
            with contained("name not looked up", upstream=group.name, name=name):
                addresses, before = [], fault
                try:
                    addresses, fault = await addresses_of(name), ""
                except (OSError, trio.TooSlowError) as error:
                    fault = str(error) or f"no answer within {TIMEOUT:g} s"
                if fault and fault != before:
                    logger().warning("name not looked up", upstream=group.name, name=name, reason=fault)
                if addresses and group.resolve(name, addresses):
                    logger().info("members looked up", upstream=group.name, name=name, members=", ".join(addresses))
                    self._on_change()
            await trio.sleep(group.resolve_interval)


async def addresses_of(address: str) -> list[str]:
    """Return the HOST:PORTs of all addresses of a host's name; raise `OSError`, or `trio.TooSlowError`."""
    host, port = split_address(address)
    with trio.fail_after(TIMEOUT):
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return sorted({join_address(str(each[4][0]), port) for each in found})
