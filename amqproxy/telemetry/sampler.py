"""Which messages get a span: the decision is made once for a trace, so that publish and delivery share it."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.telemetry.trace_context import TraceContext


class Sampler:
    """Takes the share `ratio` of the traces.

    Of a message with a trace context, its trace id decides, in the way of OpenTelemetry's TraceIdRatioBased; none is
    taken that its publisher has not sampled. Of another, chance: `random` gives numbers from 0 up to 1.
    """

    __slots__ = ("_bound", "_random", "_ratio")

    def __init__(self, ratio: float, random: Callable[[], float]) -> None:
        self._ratio = ratio
        self._bound = round(ratio * 2**64)
        self._random = random

    def takes(self, context: TraceContext | None) -> bool:
        """Is the message with this trace context to get a span?"""
        if context is None:
            return self._random() < self._ratio
        return context.is_sampled and int(context.trace_id[16:], 16) < self._bound
