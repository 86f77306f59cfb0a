"""Whether the members of upstream groups can be reached from this machine, for `amqproxy config check`."""

from __future__ import annotations

import trio

from amqproxy.configuration.config import Config
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.proxy.upstream import Dialer, Unreachable

PATIENCE = 2.0
"""Seconds for each member to accept, all of them at once."""


def unreachable_members(config: Config) -> list[str]:
    """Return what is wrong with each member that cannot be reached, with its place in the config.

    The brokers of groups only: a single upstream may be started later than the proxy.
    """
    faults: dict[str, str] = {}

    async def try_one(place: str, wanted: UpstreamConfig) -> None:
        try:
            transport = await Dialer(wanted, PATIENCE)()
        except Unreachable as error:
            faults[place] = str(error)
        else:
            await transport.aclose()

    async def try_all() -> None:
        async with trio.open_nursery() as nursery:
            for name, group in config.clients_upstreams.items():
                for number, member in enumerate(group.all_members):
                    place = f"upstreams.{name}.members[{number}]" if group.members else f"upstreams.{name}"
                    proxied = bool(member.proxy_protocol)
                    wanted = UpstreamConfig(address=member.address, tls=member.tls, proxy_protocol=proxied)
                    nursery.start_soon(try_one, place, wanted)

    if config.clients_upstreams:
        trio.run(try_all)
    return [f"{place}: {fault}" for place, fault in sorted(faults.items())]
