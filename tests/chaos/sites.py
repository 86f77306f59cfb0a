"""Every await and every function of the servers, as a place where an exception can be injected.

The list is made from the code: modules are compiled from a syntax tree to which a call is added at the beginning of
each function and around each await. Only the plain sources can be changed so; `install` comes before they are imported.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

PACKAGES = ("amqp091", "broker", "control", "log", "proxy", "rules", "sockets", "taps")
"""What both servers are made of. Not `supervision`, the door at which failures are caught."""

DOORS = ("Session.contained", "Events.contained", "Events.fail")
"""More of these entry points, which serve no client."""

DISK = (
    "batch.py",
    "batch_writer.py",
    "data_directory.py",
    "journal.py",
    "message_log.py",
    "page_file.py",
    "store.py",
    "stream_log.py",
)

KINDS: tuple[Callable[[], Exception], ...] = (
    lambda: RuntimeError("injected"),
    lambda: MemoryError("injected"),
    lambda: RecursionError("injected"),
    lambda: KeyError("injected"),
    lambda: AssertionError("injected"),
    lambda: OSError(28, "No space left on device"),
    lambda: OSError(24, "Too many open files"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "injected"),
    lambda: ExceptionGroup("injected", [ValueError("injected")]),
)
ON_DISK: tuple[Callable[[], Exception], ...] = (
    lambda: sqlite3.OperationalError("disk I/O error"),
    lambda: OSError(28, "No space left on device"),
    lambda: MemoryError("injected"),
)

MOST_SKIPPED = 30
"""How often a site is passed, at most, before it raises."""

AT_DRAIN = 0.15
"""The share of traps that wait for the drain, though their site is passed before it, too."""

owner: ContextVar[str] = ContextVar("owner", default="")
"""Whom the task that runs serves: "victim", "other", or all. Tasks inherit it from the one that starts them."""


class Site:
    """One place; `name` is for people."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.is_on_disk = name.partition(":")[0].endswith(DISK)


SITES: list[Site] = []
"""All places, in the order in which their modules were imported."""


class Trap:
    """One site that raises once: when it has been passed `skip` times, on behalf of the victim, or of any client.

    `at_drain` arms it when the proxy is asked to end, and not before.
    """

    def __init__(
        self, site: Site, skip: int, kind: Callable[[], Exception], *, for_victim: bool, at_drain: bool
    ) -> None:
        self.at_drain = at_drain
        self.site = site
        self.skip = skip
        self.kind = kind
        self.for_victim = for_victim
        self.has_sprung = False

    def __str__(self) -> str:
        client = "the victim" if self.for_victim else "any client"
        when = ", at the drain" if self.at_drain else ""
        return f"{self.kind()!r} at {self.site.name} for {client}, passed {self.skip} times before{when}"

    def step(self) -> None:
        """The site is passed. Raises, if this is the time."""
        whom = owner.get() or _owner_at_work()
        if self.has_sprung or whom != ("victim" if self.for_victim else ""):
            return
        if self.skip:
            self.skip -= 1
            return
        self.has_sprung = True
        raise self.kind()


_armed: Trap | None = None
_armed_number = -1
_seen: dict[str, Counter[int]] = {"victim": Counter(), "": Counter()}
_seen_before_drain: set[int] = set()
_is_learning = _is_draining = False


@contextmanager
def armed(trap: Trap) -> Iterator[None]:
    """Let the trap be there for the while."""
    global _armed, _armed_number
    _armed, _armed_number = trap, trap.site.number
    try:
        yield
    finally:
        _armed, _armed_number = None, -1


def learn(is_on: bool, *, is_draining: bool = False) -> None:
    """Note which sites are passed, or no more."""
    global _is_learning, _is_draining
    _is_learning, _is_draining = is_on, is_draining


def seen(whom: str) -> list[int]:
    """The numbers of the sites that were passed for the victim, or, with "", for all."""
    return sorted(number for number in _seen[whom] if not SITES[number].name.endswith(DOORS))


def enter(number: int) -> None:
    """What each function begins with."""
    if _is_learning and (whom := owner.get()) in _seen:
        _seen[whom][number] += 1
        if not _is_draining:
            _seen_before_drain.add(number)
    if number == _armed_number and _armed is not None:
        _armed.step()


async def waited(number: int, awaitable: Awaitable[Any]) -> Any:
    """What each await waits for."""
    try:
        enter(number)
    except BaseException:
        if hasattr(awaitable, "close"):
            awaitable.close()
        raise
    return await awaitable


OWNED_BY = ("connection", "channel", "_channel", "call")
"""The attributes by which parts of a connection refer to what they are a part of, or call."""

_at_work: dict[int, str] = {}
"""Of the sessions that there are, whose each is, by its id."""


def _owner_at_work() -> str:
    """Whose session, connection or channel is at work, in a task that serves all?"""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        for name in ("self", "call"):
            if whom := _owner_of(frame.f_locals.get(name)):
                return whom
        frame = frame.f_back
    return ""


def _owner_of(thing: object, depth: int = 5) -> str:
    """Whose this is, or what it calls: a ticket knows a publisher, that its channel, and that its connection."""
    if thing is None or not depth:
        return ""
    if whom := _at_work.get(id(thing), ""):
        return whom
    if isinstance(thing, partial):
        parts = [thing.func, *(each for each in thing.args if callable(each))]
    else:
        parts = [found for name in OWNED_BY if (found := getattr(thing, name, None)) is not None]
        parts += [getattr(thing, "__self__", None)]
    return next((whom for each in parts if (whom := _owner_of(each, depth - 1))), "")


class _Instrument(ast.NodeTransformer):
    def __init__(self, file: str) -> None:
        self.file = file
        self.functions: list[str] = []

    def _site(self, node: ast.AST, what: str) -> ast.expr:
        SITES.append(Site(len(SITES), f"{self.file}:{node.lineno} {'.'.join(self.functions)}{what}"))  # type: ignore[attr-defined]
        return ast.Constant(len(SITES) - 1)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self.functions.append(node.name)
        self.generic_visit(node)
        has_docstring = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        call = ast.Expr(ast.Call(ast.Name("_chaos_enter", ast.Load()), [self._site(node, "")], []))
        node.body.insert(1 if has_docstring else 0, call)
        self.functions.pop()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def visit_Await(self, node: ast.Await) -> ast.AST:
        self.generic_visit(node)
        site = self._site(node, ", an await")
        node.value = ast.Call(ast.Name("_chaos_waited", ast.Load()), [site, node.value], [])
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with its sites in it, and leaves no bytecode behind."""

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path), self.path)
        tree = ast.fix_missing_locations(_Instrument(Path(self.path).name).visit(tree))
        code = compile(tree, self.path, "exec", dont_inherit=True)
        assert isinstance(code, CodeType)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(_chaos_enter=enter, _chaos_waited=waited)
        super().exec_module(module)


class _Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parts = fullname.split(".")
        if parts[0] != "amqproxy" or len(parts) < 2 or parts[1] not in PACKAGES:
            return None
        for directory in path or ():
            for file in (Path(directory, parts[-1] + ".py"), Path(directory, parts[-1], "__init__.py")):
                if file.is_file():
                    return importlib.util.spec_from_file_location(
                        fullname,
                        file,
                        loader=_Loader(fullname, str(file)),
                        submodule_search_locations=[str(file.parent)] if file.name == "__init__.py" else None,
                    )
        return None


def install() -> None:
    """Give every module of the servers its sites, from here on."""
    import amqproxy  # noqa: F401 - it puts another finder in front

    sys.meta_path.insert(0, _Finder)


def mark_sessions(is_victim: Callable[[Any], bool]) -> None:
    """Let the tasks of each session of the proxy, and of its connection to the broker, be known as their owner's."""
    from amqproxy.broker.server.connection_task import ConnectionTask
    from amqproxy.proxy.session.session import Session

    serve_session, serve_client = Session.run, ConnectionTask.run

    async def marked(session: Session) -> None:
        owner.set("victim" if is_victim(session) else "other")
        with _owned(session):
            await serve_session(session)

    async def marked_too(connection_task: ConnectionTask) -> None:
        with _owned(connection_task, connection_task.connection):
            await serve_client(connection_task)

    Session.run = marked  # type: ignore[method-assign]
    ConnectionTask.run = marked_too  # type: ignore[method-assign]


@contextmanager
def _owned(*things: object) -> Iterator[None]:
    """Assign these objects to the client that this task serves."""
    _at_work.update({id(each): owner.get() for each in things})
    try:
        yield
    finally:
        for each in things:
            del _at_work[id(each)]


def trap_at(number: int, chance: random.Random, *, for_victim: bool) -> Trap:
    """A trap at this site, with the rest chosen at random."""
    site = SITES[number]
    kinds = ON_DISK if site.is_on_disk and not for_victim else KINDS
    times = min(_seen["victim" if for_victim else ""][number], MOST_SKIPPED)
    skip = chance.randrange(times) if times and chance.random() < 0.5 else 0
    at_drain = number not in _seen_before_drain or chance.random() < AT_DRAIN
    return Trap(site, skip, chance.choice(kinds), for_victim=for_victim, at_drain=at_drain)
