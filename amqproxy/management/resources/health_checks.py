"""Health checks, for load balancers and monitoring: 200 with `status` ok, or 503 with what failed."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from typing import Any

from amqproxy.management.call import Call, Entry
from amqproxy.management.failure import Failure, bad_request, not_found
from amqproxy.management.resources.overview import listeners

OK: Entry = {"status": "ok"}

UNITS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
"""Days in each unit of a certificate's remaining time."""

PROTOCOLS = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp": "amqp", "amqps": "amqp/ssl"}
"""Protocol names in paths, by which RabbitMQ knows a listener."""

DAY = 86_400.0

ALIVENESS = "aliveness-test"
"""Queue of the aliveness test, which stays there as in RabbitMQ."""


def failed(reason: str, **keys: Any) -> Failure:
    """Return the response of a check that failed."""
    failure = Failure(503, "failed", reason)
    failure.body = {"status": "failed", "reason": reason, **keys}
    return failure


async def passes(call: Call) -> Entry:
    """Pass: the broker has answered, and the check concerns what a broker of one node always has."""
    return OK


async def of_node(call: Call) -> Entry:
    """Pass for the only node."""
    if call.values["node"] != call.facts.node:
        raise not_found()
    return OK


async def connection_limit(call: Call) -> Entry:
    """Check that the broker may take further connections."""
    limit, current = call.facts["most_connections"], call.facts["connections"]
    if limit is not None and current >= limit:
        raise failed("node connection limit is reached", limit=limit, connections=current)
    return OK


async def aliveness(call: Call) -> Entry:
    """Check that a message passes through the virtual host; RabbitMQ 4 checks only that it answers."""
    if not call.facts.is_4:
        place = {"vhost": call.values["vhost"]}
        await call.change("declare-queue", name=ALIVENESS, durable=False, **place)
        await call.change("publish", exchange="", routing_key=ALIVENESS, body="", **place)
        await call.change("get", queue=ALIVENESS, count=1, outcome="ack", **place)
    return OK


async def single_node(call: Call) -> Entry:
    """Pass: a node alone is not critical to a majority."""
    return {"status": "ok", "reason": "single node cluster"}


async def alarms(call: Call) -> Entry:
    """Check that no resource is short."""
    found = call.facts["alarms"]
    if found:
        node = call.facts.node
        listed = [{"node": node, "resource": each} for each in found]
        raise failed("There are alarms in effect in the cluster", alarms=listed)
    return OK


async def port_listener(call: Call) -> Entry:
    """Check that the broker listens on a port."""
    text = call.values["port"]
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise bad_request("Invalid port")
    ports = [each["port"] for each in listeners(call)]
    if int(text) not in ports:
        raise failed("No active listener", missing=int(text), ports=ports)
    return {"status": "ok", "port": int(text)}


async def protocol_listener(call: Call) -> Entry:
    """Check that the broker has a listener of a protocol; RabbitMQ 4 takes several, separated by commas."""
    protocols = list(dict.fromkeys(each["protocol"] for each in listeners(call)))
    text = call.values["protocol"]
    if not call.facts.is_4:
        wanted = _protocol(text)
        if wanted not in protocols:
            raise failed("No active listener", missing=wanted, protocols=protocols)
        return {"status": "ok", "protocol": wanted}
    missing = [each for each in map(_protocol, text.split(",")) if each not in protocols]
    if missing:
        raise failed("No active listener", missing=missing, protocols=protocols)
    return {"status": "ok", "protocols": protocols}


def _protocol(text: str) -> str:
    return PROTOCOLS.get(text.lower(), text)


async def certificate_expiration(call: Call) -> Entry:
    """Check that this API's certificate stays valid for some time; the broker's own are watched by metrics."""
    unit, text = call.values["unit"], call.values["within"]
    if unit not in UNITS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise bad_request("Invalid expiration value.")
    certificate = call.settings.certificate
    if certificate is not None:
        ends = await asyncio.to_thread(_expiration, str(certificate))
        if ends < time.time() + int(text) * UNITS[unit] * DAY:
            raise failed("Certificates expiring", expired=[])
    return OK


def _expiration(certificate: str) -> float:
    decoded = ssl._ssl._test_decode_cert(certificate)  # type: ignore[attr-defined]
    return ssl.cert_time_to_seconds(decoded["notAfter"])
