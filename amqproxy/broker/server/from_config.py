"""Creation of the broker that a configuration describes, with its limits, stored data and definitions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio

from amqproxy.broker.access.quotas import UserQuotas
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions import definitions_json
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.log_exchange import log_published
from amqproxy.broker.server.machine_resources import usual_memory_limit
from amqproxy.broker.server.persistence import persisted
from amqproxy.broker.server.server import BrokerServer
from amqproxy.broker.server.token_logins import token_logins
from amqproxy.configuration import config
from amqproxy.process.log import logger
from amqproxy.process.supervision import kept_up
from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.sockets.certificate import NAMINGS


@asynccontextmanager
async def configured(settings: config.BrokerConfig, version: str = "") -> AsyncIterator[BrokerServer]:
    """Run a server without listeners for the duration of the block; at its end, durable state is on disk.

    `ConfigError` if the definitions are invalid, `StoreError` if the data cannot be opened.
    """
    limits = settings.limits
    broker = Broker(
        version,
        channel_max=limits.channel_max,
        frame_max=limits.frame_max,
        heartbeat=limits.heartbeat,
        max_message_size=limits.message_size,
        memory_limit=usual_memory_limit() if limits.memory is None else limits.memory,
        disk_free_limit=limits.disk_free,
        consumer_timeout=limits.consumer_timeout,
        dtx_timeout=limits.dtx_timeout,
        quotas=UserQuotas(
            branches=limits.dtx_branches,
            interrupted=limits.interrupted_messages,
            interrupted_bytes=limits.interrupted_memory,
            detached=limits.detached_sessions,
        ),
        log_exchange=settings.log_exchange,
        mechanisms=settings.auth_mechanisms,
        plugins=settings.plugins,
        profile=PROFILES[settings.profile].switching(settings.deprecated_features),
    )
    data = None if settings.data is None else Path(settings.data)
    async with AsyncExitStack() as stack:
        recorder = None if data is None else await stack.enter_async_context(persisted(broker, data))
        if settings.definitions is not None:
            _define(broker, Path(settings.definitions))
        if recorder is not None:
            recorder.compare()
        if settings.log_exchange:
            stack.enter_context(log_published(broker))
        server = BrokerServer(
            broker,
            most_connections=limits.connections,
            naming=NAMINGS[settings.certificate_login],
            directory=data,
        )
        if settings.tokens is not None:
            server.tokens = token_logins(settings.tokens, broker.profile)
            broker.user_of_token = server.tokens.log_in
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            if server.tokens is not None:
                nursery.start_soon(kept_up, "keys not fetched", server.tokens.run)
            yield server
            nursery.cancel_scope.cancel()


def _define(broker: Broker, file: Path) -> None:
    try:
        found = json.loads(file.read_bytes())
        if not isinstance(found, dict):
            raise config.ConfigError(f"{file}: not an object, as RabbitMQ exports it")
        for warning in definitions_json.load(broker, found, current_time()):
            logger().warning("definitions not fully supported", what=warning)
    except OSError as error:
        raise config.ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise config.ConfigError(f"{file}: {error}") from None
