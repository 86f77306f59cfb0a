"""Active checks of the members of upstream groups, each in a task of its own."""

from __future__ import annotations

import errno
import math
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.configuration.upstream_config import HealthCheck
from amqproxy.configuration.values import split_address
from amqproxy.process.supervision import contained
from amqproxy.proxy.broker_login import LOST, open_connection, send_close
from amqproxy.proxy.upstream import Unreachable, explained
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.group_tasks import GroupTasks
from amqproxy.proxy.upstreams.member import Member

SOON = 1.0
"""Longest time from a failed check to the next one, in seconds, so that a failure is decided soon."""

MAX_STATUS_LINE = 4096
"""Longest status line of an HTTP answer, in bytes."""


class CheckFailed(Exception):
    """A check failed; the text gives the reason."""


class HealthChecks(GroupTasks):
    """Checks of all groups that `groups` returns, as their configurations demand.

    `passwords` are those of the checks' users, by group. `on_down` is called once for each time that a member is down,
    as soon as another one of its group is well, if the check closes the clients of such members.
    """

    def __init__(
        self,
        groups: Callable[[], list[UpstreamGroup]],
        on_down: Callable[[Member, str], Awaitable[None]],
        passwords: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(groups)
        self.passwords = dict(passwords or {})
        self._on_down = on_down

    def apply(self, passwords: Mapping[str, str]) -> None:
        """Restart the checks with these passwords, for the present groups."""
        self.passwords = dict(passwords)
        self.restart()

    def _start(self, group: UpstreamGroup, nursery: trio.Nursery) -> None:
        if group.check is not None:
            for place, member in enumerate(group.members):
                # spread over the interval, so that not all members are asked at once
                wait = group.check.interval * place / len(group.members)
                nursery.start_soon(self._watch, group, member, group.check, wait)

    async def _watch(self, group: UpstreamGroup, member: Member, check: HealthCheck, wait: float) -> None:
        await trio.sleep(wait)
        has_closed = member.is_down
        while True:
            began = trio.current_time()
            fault = ""  # a failure of the check itself says nothing about the member
            with contained("check failed", upstream=group.name, member=member.address):
                fault = await fault_of(member, check, self.passwords.get(group.name, ""))
            group.note_check(member, trio.current_time(), fault, fall=check.fall, rise=check.rise)
            if not member.is_down:
                has_closed = False
            elif fault and not has_closed and check.closes and group.has_refuge(member):
                has_closed = True
                await self._on_down(member, f"{member.address} is down: {fault}")
            pause = min(check.interval, SOON) if fault and not member.is_down else check.interval
            await trio.sleep_until(max(began + pause, trio.current_time()))


async def fault_of(member: Member, check: HealthCheck, password: str) -> str:
    """Check a member once; return what is wrong with it, or ""."""
    try:
        with trio.fail_after(check.timeout):
            await _CHECKS[check.kind](member, check, password)
    except trio.TooSlowError:
        return f"no answer within {check.timeout:g} s"
    except (Unreachable, CheckFailed, *LOST) as error:
        return str(error)
    except OSError as error:
        return "" if _is_own(error) else explained(error)[1]
    return ""


def _is_own(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is this process' lack of resources, which says nothing about a member."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_own, error.exceptions))
    if isinstance(error, OSError) and error.errno in _OWN_FAULTS:
        return True
    return error is not None and _is_own(error.__cause__)


_OWN_FAULTS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})


async def _connect(member: Member, check: HealthCheck, password: str) -> None:
    """Open a TCP connection, and close it before TLS."""
    host, port = split_address(member.address)
    stream = await trio.open_tcp_stream(host, port)
    await stream.aclose()


async def _shake_hands(member: Member, check: HealthCheck, password: str) -> None:
    """Open a connection as for a client, and close it before AMQP."""
    transport = await member.dial(None)
    await transport.aclose()


async def _log_in(member: Member, check: HealthCheck, password: str) -> None:
    """Log in by AMQP, and close the connection properly, so that RabbitMQ logs no warning."""
    transport = await member.dial(None)
    connection = Connection()
    try:
        start = ConnectionStartOk(response=f"\0{check.user}\0{password}".encode())
        await open_connection(transport, connection, start, check.vhost)
        await send_close(transport, connection, "health check", math.inf)
    finally:
        with trio.CancelScope(shield=True):
            await transport.aclose()


async def _ask(member: Member, check: HealthCheck, password: str) -> None:
    """Ask a member's HTTP API whether it is well."""
    host, _ = split_address(member.address)
    url = urlsplit(check.url.replace("{host}", f"[{host}]" if ":" in host else host))
    lines = [
        f"GET {url.path or '/'}{'?' if url.query else ''}{url.query} HTTP/1.1",
        f"Host: {url.netloc}",
        "Connection: close",
    ]
    if check.user:
        credentials = b64encode(f"{check.user}:{password}".encode()).decode()
        lines.append(f"Authorization: Basic {credentials}")
    async with await trio.open_tcp_stream(url.hostname or host, url.port or 80) as stream:
        await stream.send_all("\r\n".join([*lines, "", ""]).encode())
        answer = b""
        while b"\r\n" not in answer and len(answer) < MAX_STATUS_LINE:
            data = await stream.receive_some(MAX_STATUS_LINE)
            if not data:
                break
            answer += data
    status = answer.partition(b"\r\n")[0].decode("latin-1")
    words = status.split(" ", 2)
    if not words[0].startswith("HTTP/") or words[1:2] != ["200"]:
        raise CheckFailed(f"{url.path} answered {' '.join(words[1:]) or 'nothing'!r}")


_CHECKS: dict[str, Callable[[Member, HealthCheck, str], Awaitable[None]]] = {
    "tcp": _connect,
    "tls": _shake_hands,
    "amqp": _log_in,
    "http": _ask,
}
