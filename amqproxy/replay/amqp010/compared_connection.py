"""A live 0-10 connection that compares its broker with the recorded one.

The recorded broker's completions, settlements, results and transfers are awaited, and compared with the live ones.
Messages are compared in their 0-9-1 views. There is no clock: the time is passed in, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqproxy.amqp010 import controls
from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.commands import ExecutionException, ExecutionResult, MessageTransfer
from amqproxy.amqp091.commands import Command as View
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.comparison.difference import Change, changes
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.peer import SERVER
from amqproxy.replay.amqp010.assembly_sent import AssemblySent
from amqproxy.replay.amqp010.live_connection import SETTLEMENTS, Amqp010LiveConnection
from amqproxy.replay.amqp010.session import PlayedSession, ids_of, remember
from amqproxy.replay.answer_changes import answer_changes
from amqproxy.replay.broker_link import Life, ReplayedStream
from amqproxy.replay.content_key import content_key
from amqproxy.replay.deliveries import NOTHING, LiveDelivery
from amqproxy.replay.player import ComparedLink
from amqproxy.replay.steps import BytesSent, CommandSent, ProtocolHeaderSent
from amqproxy.taps.amqp010.record import plain

OF_BROKER_J = "$"
"""Prefix of Broker-J's own queues, whose messages it generates itself."""

_BY_THEN = ("message_count", "subscriber_count")
"""Fields of a queue's query result that are not compared."""


class Amqp010ComparedConnection(ComparedLink, Amqp010LiveConnection):
    """One connection to a broker, and its comparison with a recorded one."""

    WHY_OVER = "its session was over"

    def __init__(self, replayed: ReplayedStream, *, timeout: float, wake: Callable[[], None]) -> None:
        super().__init__(replayed, timeout=timeout, wake=wake)
        self._is_close_recorded = False

    def report_rest(self) -> None:
        for session in self._sessions.values():
            if session.exception is not None and not session.is_end_recorded and not self._lacks_answers:
                self._result.extra_event(session.why_over, self.stream, self.connection, self._now_ns)
        has_ended = self._has_eof or self._close_received is not None
        self._report_end(is_expected=not has_ended or self._is_close_recorded)

    def report_extra_delivery(self, delivery: LiveDelivery) -> None:
        if not self._lacks_answers:
            view = self._names.recorded(delivery.command)
            name, number = MessageTransfer.name, delivery.channel
            self._result.extra(view, self.stream, self.connection, self._now_ns, name=name, session=number)

    # --- the recorded broker's steps

    def _await_server(self, step: AssemblySent | ProtocolHeaderSent | BytesSent, begin: float) -> float | None:
        if not isinstance(step, AssemblySent):
            return None
        method = step.command.method
        if isinstance(method, controls.ConnectionClose):
            return self._await_close(step, method, begin)
        if method.name.startswith("connection."):
            return None
        session = self._sessions.get(step.channel)
        if session is None:
            return None  # attached before the capture began
        match method:
            case controls.SessionAttached():
                return self._await_fact(step, begin, session.is_attached, is_over=session.is_over)
            case controls.SessionDetached():
                return self._await_fact(step, begin, session.is_over, is_over=self.life is Life.ENDED)
            case controls.SessionDetach():
                session.is_end_recorded = True
                if session.is_exception_unsent:
                    return None
                return self._await_fact(step, begin, session.is_over, is_over=self.life is Life.ENDED)
            case controls.SessionCompleted():
                return self._await_completion(step, session, method, begin)
            case ExecutionResult():
                return self._await_result(step, session, method, begin)
            case ExecutionException():
                return self._await_exception(step, session, method, begin)
            case MessageTransfer():
                return self._await_delivery(step, session, begin)
            case _ if isinstance(method, SETTLEMENTS):
                return self._await_settlement(step, session, method, begin)
            case _:
                return None

    def _await_close(self, step: AssemblySent, method: controls.ConnectionClose, begin: float) -> float | None:
        self._is_close_recorded = True
        live = self._close_received
        if live is None:
            return self._await(step, begin, is_over=self.life is Life.ENDED)
        self._compared(step, changes({"reply_code": method.reply_code}, {"reply_code": live.reply_code}))
        return None

    def _await_fact(self, step: AssemblySent, begin: float, has_come: bool, *, is_over: bool) -> float | None:
        if has_come:
            self._result.answers += 1
            return None
        return self._await(step, begin, is_over=is_over)

    def _await_completion(
        self, step: AssemblySent, session: PlayedSession, method: controls.SessionCompleted, begin: float
    ) -> float | None:
        """Wait until the live broker has completed the commands that the recorded one first completes here."""
        new = CommandIds()
        for ids in ids_of(method.commands):
            new.add(range(max(ids.start, ids.stop - len(session.live_ids) - 1), ids.stop))
        for ids in session.seen:
            new.remove(ids)
        is_done = all(session.is_completed(each) for ids in new for each in ids)
        is_over = session.is_over or session.exception is not None
        if not is_done and not session.is_ending:
            until = self._await(step, begin, is_over=is_over)
            if until is not None:
                return until
        self._result.answers += bool(new) and is_done
        for ids in new:
            session.seen.add(ids)
        return None

    def _await_result(
        self, step: AssemblySent, session: PlayedSession, method: ExecutionResult, begin: float
    ) -> float | None:
        live_id = session.live_ids.get(method.command_id or 0)
        if live_id is None:
            return None  # its command is not in the capture, or was not sent
        live = session.results.get(live_id)
        if live is None:
            is_over = session.is_over or session.exception is not None or live_id in session.completed
            return self._await(step, begin, is_over=is_over)
        one, other = plain(method.value), plain(live.value)
        if isinstance(one, dict) and isinstance(other, dict):
            for name in _BY_THEN:
                one.pop(name, None)
                other.pop(name, None)
            if self._suffix and str(other.get("queue", "")).endswith(self._suffix):
                other["queue"] = other["queue"][: -len(self._suffix)]
            self._compared(step, changes(one, other, "value"))
        else:
            self._compared(step, [] if one == other else [Change(field="value", before=one, after=other)])
        return None

    def _await_exception(
        self, step: AssemblySent, session: PlayedSession, method: ExecutionException, begin: float
    ) -> float | None:
        live = session.exception
        session.is_end_recorded = True
        if live is None and method.command_id is not None and method.command_id not in session.live_ids:
            session.is_exception_unsent = True  # its command is not in the capture, or was not sent
            return None
        if live is None:
            return self._await(step, begin, is_over=session.is_over)
        self._compared(step, changes({"error_code": method.error_code}, {"error_code": live.error_code}))
        return None

    def _await_settlement(self, step: AssemblySent, session: PlayedSession, method: Any, begin: float) -> float | None:
        pairs = [
            (recorded, session.live_ids[recorded])
            for ids in ids_of(method.transfers)
            for recorded in ids[: len(session.live_ids) + 1]
            if recorded in session.live_ids
        ]
        if any(live not in session.settled for _, live in pairs):
            until = self._await(step, begin, is_over=session.is_over or session.is_ending)
            if until is not None:
                return until
        others = {session.settled[live] for _, live in pairs if live in session.settled} - {method.name}
        for other in sorted(others):
            self._compared(step, [Change(field="method", before=method.name, after=other)])
        self._result.answers += not others
        return None

    def _await_delivery(self, step: AssemblySent, session: PlayedSession, begin: float) -> float | None:
        subscription = session.subscriptions.get(step.command.method.destination or "")
        view = command_view(SERVER, step.command, step.command_id or 0)
        assert view is not None
        if subscription is None:
            return None  # its subscription was not played, or is not in the capture
        queue = subscription.queue
        is_late = session.is_ending or subscription.is_ending  # the number of deliveries in flight is chance
        is_over = session.is_over
        found = self._await_message(step, queue, content_key(view), begin, is_late=is_late, is_over=is_over)
        if isinstance(found, float):
            return found
        if found is None and not is_late:
            self._result.missing(self._viewed(step, view), "it did not come")
        if step.command_id is not None:
            remember(session.deliveries, step.command_id, found)
        if found is not None:
            if queue.partition("\0")[2].startswith(OF_BROKER_J):
                self._result.answers += 1
            else:
                self._compare_views(step, view, found.command)
            found.command = NOTHING  # only the tag is needed for settling it, perhaps much later
        return None

    # --- comparison

    def _compare_views(self, step: AssemblySent, recorded: View, live: View) -> None:
        shown = self._viewed(step, recorded)
        try:
            found = answer_changes(recorded, self._names.recorded(live))
            found = [
                each for each in found if each.field != "properties.expiration"
            ]  # the remaining time to live, which depends on the run
        except ProtocolError091 as error:
            self._result.missing(shown, f"what came instead is malformed: {error}")
            return
        self._result.matched(shown, live, found, self._now_ns)

    def _compared(self, step: AssemblySent, found: list[Change]) -> None:
        """Report the comparison of a recorded answer that has no complete counterpart in 0-9-1."""
        view = View(step.channel, NOTHING.method)
        self._result.matched(self._viewed(step, view), view, found, self._now_ns)

    def _viewed(self, step: AssemblySent, view: View) -> CommandSent:
        """Return the step with its 0-9-1 view as command, under its own name."""
        return CommandSent(
            index=step.index,
            ts_ns=step.ts_ns,
            stream=step.stream,
            connection=step.connection,
            sender=step.sender,
            command=view,
            name=step.command.method.name,
            session=step.channel,
        )
