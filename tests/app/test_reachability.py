"""Members that cannot be reached are named."""

from __future__ import annotations

import socket

from amqproxy.app.reachability import unreachable_members
from amqproxy.configuration.config import Config
from amqproxy.configuration.upstream_config import MemberConfig, NamedUpstream


def test_each_unreachable_member_is_named_with_its_place() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        reachable, missing = (f"127.0.0.1:{each.getsockname()[1]}" for each in (there, gone))
        gone.close()
        members = tuple(MemberConfig(address=each) for each in (reachable, missing))
        upstreams = {
            "g": NamedUpstream(members=members),
            "one": NamedUpstream(address=missing),
            "unused": NamedUpstream(address=missing),
        }
        config = Config(upstream="g", upstreams=upstreams, routes=())
        assert [each.partition(" ")[0] for each in unreachable_members(config)] == ["upstreams.g.members[1]:"]
        assert unreachable_members(Config(upstream="one", upstreams=upstreams)) == [
            f"upstreams.one: {missing} refused the connection; is the broker up, and is this its address?"
        ]
        assert unreachable_members(Config()) == []
