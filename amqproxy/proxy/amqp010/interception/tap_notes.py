"""Notes on commands for taps, and the frames shown of commands that are not forwarded unchanged."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress

from amqproxy.amqp010.frame import Frame
from amqproxy.amqp091.commands import Command as View
from amqproxy.conversion.amqp010.command_view import changed_assembly
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010.interception.encoding import altered
from amqproxy.proxy.amqp010.interception.evaluation import Amqp010Evaluation
from amqproxy.proxy.amqp010.interception.path import Pending
from amqproxy.proxy.interception.actions import Action, ShowToTaps
from amqproxy.rules.engine.outcome import Outcome, outcome
from amqproxy.rules.verdict import Verdict
from amqproxy.taps.note import LEGS, NOTHING, Note


def note_for(
    evaluation: Amqp010Evaluation, sender: Peer, pending: Pending, verdict: Verdict
) -> Generator[Action, None, Note]:
    """Show taps a command that is not forwarded unchanged; return the note on the command."""
    note, view = NOTHING, pending.view
    if verdict.marks or verdict.tags:
        is_shadow = bool(verdict.marks) and all(mark.endswith("(shadow)") for mark in verdict.marks)
        note = Note(verdict.marks, verdict.tags, Outcome.SHADOW if is_shadow else outcome(verdict, view))
    if verdict.command is not view or verdict.damage or verdict.close is not None:
        if not note.verdict and verdict.close is None:  # restored names change the command, but have no marks
            note = note._replace(verdict=Outcome.CHANGED)
        frames = shown_frames(sender, pending, evaluation.covered(sender, view))
        yield ShowToTaps(sender, frames, note._replace(leg=LEGS[sender]), pending.position)
        return note._replace(leg=LEGS[sender.other])
    if verdict.shown is not None:
        yield ShowToTaps(sender, shown_frames(sender, pending, verdict.shown), note, pending.position)
    return note


def shown_frames(sender: Peer, pending: Pending, covered: View | None) -> Sequence[Frame]:
    """Return the frames of a command as taps may see it; none if it cannot be encoded."""
    if covered is None:
        return ()
    if covered is pending.view:
        return pending.frames
    with suppress(Exception):
        assembly = changed_assembly(sender, pending.assembly, pending.view, covered)
        return altered(pending.assembly, assembly, pending.frames, 0)
    return ()
