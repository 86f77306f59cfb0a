"""Names with several addresses, that come and go."""

from __future__ import annotations

import socket

import trio
from trio.testing import MockClock

from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.name_lookups import NameLookups


class Names(trio.abc.HostnameResolver):
    """Answers with `addresses`, or fails, or not at all."""

    def __init__(self) -> None:
        self.addresses: list[str] | OSError | None = ["10.0.0.1", "10.0.0.2"]

    async def getaddrinfo(self, host: object, port: object, *_: object, **__: object) -> list[object]:  # type: ignore[override]
        if self.addresses is None:
            await trio.sleep_forever()
        if isinstance(self.addresses, OSError):
            raise self.addresses
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in self.addresses or []]

    async def getnameinfo(self, *_: object) -> tuple[str, str]:  # type: ignore[override]
        raise NotImplementedError


def members(group: UpstreamGroup) -> str:
    return " ".join(member.address for member in group.members)


async def test_members_follow_the_answers(autojump_clock: MockClock) -> None:
    names, changes = Names(), []
    trio.socket.set_custom_hostname_resolver(names)

    def make(address: str) -> Member:
        return Member(address, origin="rabbit:5672")

    group = UpstreamGroup(
        "g", [Member("other:1"), make("rabbit:5672")], names={"rabbit:5672": make}, resolve_interval=10.0
    )
    lookups = NameLookups(lambda: [group], lambda: changes.append(members(group)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lookups.run)
        await trio.sleep(1.0)
        assert members(group) == "other:1 10.0.0.1:5672 10.0.0.2:5672"
        kept = group.members[2]
        kept.note_connected()
        names.addresses = ["10.0.0.3", "10.0.0.2", "10.0.0.2"]
        await trio.sleep(10.0)
        assert members(group) == "other:1 10.0.0.2:5672 10.0.0.3:5672"
        assert group.members[1] is kept
        for nothing in (OSError("no such name"), [], None):
            names.addresses = nothing  # type: ignore[assignment]
            await trio.sleep(20.0)
            assert members(group) == "other:1 10.0.0.2:5672 10.0.0.3:5672"
        names.addresses = ["fd00::1"]
        await trio.sleep(20.0)
        assert members(group) == "other:1 [fd00::1]:5672"
        assert len(changes) == 3
        names.addresses = ["10.0.0.9"]
        lookups.restart()
        await trio.sleep(1.0)
        assert members(group) == "other:1 10.0.0.9:5672"
        nursery.cancel_scope.cancel()
