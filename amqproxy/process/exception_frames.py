"""The frames that an exception refers to, and by these all that its callers had: too much for one that is kept."""

from __future__ import annotations

import sys
from types import FrameType


def release_frames(error: BaseException) -> None:
    """Have an exception that is kept, and those that led to it, refer to no frame any more.

    Else it is often one link of a circle, as where what has caught it keeps it; and trio's translation of a socket's
    errors closes one by itself. Only the garbage collector would free what is held by that, and it looks seldom.

    One that is still on its way, as where what its `finally` does has failed, keeps its own: the log is to show them.
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
