"""The FastAPI application."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI

from amqproxy import __version__
from amqproxy.dashboard.api import (
    actions,
    analytics,
    broker,
    broker_changes,
    broker_login,
    captures,
    connections,
    exports,
    frames,
    live,
    lives,
    marks,
    messages,
    overview,
    resend,
    rules,
    sequence,
    session,
    switches,
    topology,
    upstreams,
    workbench,
)
from amqproxy.dashboard.api import sources as sources_api
from amqproxy.dashboard.api_page import serve_api_page
from amqproxy.dashboard.auth import LoginCheck, Logins
from amqproxy.dashboard.body_reader import BodyReader
from amqproxy.dashboard.broker_logins import BrokerLogins
from amqproxy.dashboard.collecting import keep_collections_short
from amqproxy.dashboard.comparisons import Comparisons
from amqproxy.dashboard.headers import HeaderChecks
from amqproxy.dashboard.pages import serve_pages
from amqproxy.dashboard.problem import PROBLEMS, Containment, handle_problems
from amqproxy.dashboard.reach_turns import ReachTurns
from amqproxy.dashboard.replays import Replays
from amqproxy.dashboard.request_limits import RequestLimits
from amqproxy.dashboard.settings import Settings
from amqproxy.dashboard.sources import Sources
from amqproxy.dashboard.table_queries import TableQueries
from amqproxy.dashboard.workbench_runs import WorkbenchRuns
from amqproxy.web.peers import Peers
from amqproxy.web.wrong_passwords import WrongPasswords

PREFIX = "/api/v1"

ROUTED = (
    *(session, sources_api, overview, connections, frames, marks, messages, resend, lives, sequence, topology),
    *(rules, actions, captures, exports, broker, broker_login, broker_changes, workbench, upstreams, switches),
    *(analytics, live),
)


THREADS = 16
"""Threads for slow work; enough that some stay free when one browser asks for as much as it may."""


def create_app(settings: Settings, peers: Peers | None = None) -> FastAPI:
    """Create the application; its sources are read, and `peers` watched, while it runs."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "dashboard"))
        sources.start()
        background = [asyncio.create_task(keep_collections_short())]
        if peers is not None:
            background.append(asyncio.create_task(peers.watch()))
        try:
            yield
        finally:
            for task in background:
                task.cancel()
            await replays.stop()
            await workbench_runs.stop()
            await bodies.stop()
            await sources.stop()

    sources = Sources(settings)
    replays = Replays()
    workbench_runs = WorkbenchRuns()
    bodies = BodyReader()
    logins = Logins(settings)
    app = FastAPI(
        title="amqproxy dashboard",
        version=__version__,
        lifespan=lifespan,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=PROBLEMS,
    )
    app.state.sources = sources
    app.state.replays = replays
    app.state.workbench_runs = workbench_runs
    app.state.comparisons = Comparisons()
    app.state.bodies = bodies
    app.state.tables = None if settings.tables is None else TableQueries(settings.tables)
    app.state.settings = settings
    app.state.logins = logins
    app.state.broker_logins = BrokerLogins()
    app.state.reach_turns = ReachTurns()
    app.state.wrong_broker_passwords = WrongPasswords()
    app.state.exports = exports.Exports()
    app.state.viewers = Counter[str]()
    for each in ROUTED:
        app.include_router(each.router, prefix=PREFIX)
    handle_problems(app)
    serve_api_page(app)
    serve_pages(app)
    app.add_middleware(Containment)
    app.add_middleware(LoginCheck, logins=logins)
    app.add_middleware(RequestLimits)
    app.add_middleware(HeaderChecks, settings=settings)
    return app
