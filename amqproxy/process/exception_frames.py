"""Frames referenced by an exception, and through them all locals of its callers: too much for a kept exception."""

from __future__ import annotations

import sys
from types import FrameType


def release_frames(error: BaseException) -> None:
    """Remove the frames from a kept exception, and from its causes and contexts.

    Otherwise it is often part of a reference cycle, for example if its handler keeps it; trio's translation of socket
    errors closes one by itself. Only the garbage collector would free these objects, and it runs rarely.

    An exception that is still propagating, for example if a `finally` has failed, keeps its frames for the log.
    """
    running: set[FrameType] = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        running.add(frame)
        frame = frame.f_back
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            trace = one.__traceback__
            if one is not error and trace is not None and trace.tb_frame in running:
                continue
            one.__traceback__ = None
            waiting += [one.__cause__, one.__context__]
