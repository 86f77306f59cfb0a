"""Options of the `queue` commands, and the queue that they name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Flag
from amqproxy.cli.target_url import target_of

if TYPE_CHECKING:
    from amqproxy.moving.move_job import MoveEnd
    from amqproxy.rules.matching.filters import Filter
    from amqproxy.workbench.queue_pass import Selection
    from amqproxy.workbench.runs import BenchQueue

USUAL_WINDOW = 10_000
"""Default maximum of messages that a run holds; `amqproxy.workbench.queue_pass` has the same."""

AUDIT = "AMQPROXY_AUDIT"
"""Variable with the file of the audit."""

API_PORTS = {"amqp": ("http", 15672), "amqps": ("https", 15671)}

Broker = Annotated[str, Parameter(help="The broker: amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…")]
Queue = Annotated[str, Parameter(help="The queue.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reached:
    """Access to the broker, and facts about the queue that it does not tell by AMQP."""

    api: Annotated[
        bool | str,
        Parameter(
            negative="",
            help="Ask the management API, at this URL [http://HOST:15672], what kind of queue it is and what its "
            "delivery limit is.",
        ),
    ] = False
    type: Annotated[
        Literal["classic", "quorum", "stream"] | None, Parameter(help="The queue's type, without --api.")
    ] = None
    delivery_limit: Annotated[
        int | None, Parameter(help="A quorum queue's delivery limit, without --api; -1 if it has none.")
    ] = None
    ca: Annotated[
        Path | None, Parameter(help="With amqps: the authority that must have signed the certificate, in PEM.")
    ] = None
    insecure: Annotated[Flag, Parameter(help="With amqps: do not check the broker's certificate.")] = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The messages that a run is for."""

    where: Annotated[
        str | None, Parameter(help="Only messages for which this CEL expression holds, such as headers.tenant == 'a'.")
    ] = None
    limit: Annotated[int | None, Parameter(help="Maximum number of these messages.")] = None
    window: Annotated[
        int,
        Parameter(
            help="Maximum number of other messages that are held until the end, which bounds how deep into the queue "
            "it looks."
        ),
    ] = USUAL_WINDOW

    def filter(self) -> Filter | None:
        """Return the compiled filter."""
        if self.where is None:
            return None
        from amqproxy.rules.matching.filters import compiled

        try:
            return compiled(self.where)
        except ValueError as error:
            raise Failure(f"--where: {error}", MISUSED) from None

    def selection(self, position: int = 0) -> Selection:
        """Return the selection of a run."""
        from amqproxy.workbench.queue_pass import Selection

        for option, value, least in (
            ("--limit", self.limit, 1),
            ("--window", self.window, 1),
            ("--position", position, 0),
        ):
            if value is not None and value < least:
                raise Failure(f"{option} {value}: must be at least {least}", MISUSED)
        return Selection(where=self.filter(), limit=self.limit, position=position, window=self.window)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Noted:
    """Dry runs, results and the audit."""

    dry_run: Annotated[Flag, Parameter(help="Say what would happen; nothing is published, written or removed.")] = False
    audit: Annotated[
        Path | None,
        Parameter(
            help="File of JSON lines in which runs and edits are noted, or in AMQPROXY_AUDIT "
            "[~/.local/state/amqproxy/queue-audit.jsonl]."
        ),
    ] = None
    json: Annotated[Flag, Parameter(help="Print the result as a JSON object.")] = False

    @property
    def file(self) -> Path:
        """The audit's file."""
        if self.audit is not None or AUDIT in os.environ:
            return self.audit or Path(os.environ[AUDIT])
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return Path(state).expanduser() / "amqproxy" / "queue-audit.jsonl"


def end_of(url: str, reached: Reached, where: str) -> tuple[MoveEnd, str]:
    """Return a broker with its login, and the virtual host."""
    from amqproxy.configuration.tls_config import ClientTLS
    from amqproxy.configuration.upstream_config import UpstreamConfig
    from amqproxy.moving.move_job import MoveEnd

    target = target_of(url, where)
    if (reached.ca or reached.insecure) and not target.is_tls:
        raise Failure(f"{where}: --ca and --insecure are for amqps://", MISUSED)
    tls = ClientTLS(ca=str(reached.ca) if reached.ca else None, verify=not reached.insecure) if target.is_tls else None
    upstream = UpstreamConfig(address=target.address, tls=tls)
    return MoveEnd(upstream=upstream, user=target.user, password=target.password), target.virtual_host or "/"


def bench_queue(url: str, queue: str, reached: Reached, where: str) -> BenchQueue:
    """Return the queue that a command names."""
    from amqproxy.workbench.broker_api import BrokerAPI
    from amqproxy.workbench.queue_facts import Given
    from amqproxy.workbench.runs import BenchQueue

    end, vhost = end_of(url, reached, where)
    api = None
    if reached.api:
        parts = urlsplit(url)
        scheme, port = API_PORTS[parts.scheme]
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
        address = reached.api if isinstance(reached.api, str) else f"{scheme}://{host}:{port}"
        api = BrokerAPI(url=address, user=end.user, password=end.password, ca=str(reached.ca) if reached.ca else None)
    given = Given(type=reached.type or "", delivery_limit=reached.delivery_limit, api=api)
    return BenchQueue(end=end, vhost=vhost, name=queue, given=given)
