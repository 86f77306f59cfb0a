"""Connection to the broker that a capture is played against."""

from __future__ import annotations

from amqproxy.configuration.tls_config import ClientTLS
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.proxy.upstream import Dialer, Unreachable
from amqproxy.replay.replayer import Dial, DialFailed
from amqproxy.replay.target import Target
from amqproxy.sockets.transport import Transport


def broker_dial(target: Target, timeout: float, *, ca: str | None = None, verify: bool = True) -> Dial:
    """Return a function that connects to `target` within `timeout` seconds.

    With amqps, the target's certificate is verified against the authority `ca`, unless `verify` is False.
    `ConfigError` if `ca` cannot be read.
    """
    tls = ClientTLS(ca=ca, verify=verify) if target.is_tls else None
    dialer = Dialer(UpstreamConfig(address=target.address, tls=tls), timeout)

    async def dial() -> Transport:
        try:
            return await dialer()
        except Unreachable as error:
            raise DialFailed(str(error)) from None

    return dial
