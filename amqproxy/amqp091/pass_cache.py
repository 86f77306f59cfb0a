"""Methods that a reader passes without making frames of them, by their payload.

The decider about frames (a proxy's rules) fills a reader's `PassCache`, and limits it by `Credit`.
"""

from __future__ import annotations

from math import inf

from amqproxy.amqp091.frame import METHOD, encode_frame

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

# Lookup table of an empty `PassCache`, never written to; others first look among the latest hits.
_NONE_RECENT: list[CachedPass | None] = [None] * 256
_SPREAD = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)


@cython.cclass
class Credit:
    """Number of methods that may pass unseen: each takes one of `left`.

    `spent` is the number taken since its owner last refilled it.
    """

    def __init__(self, left: float = 0.0) -> None:
        self.left = left
        self.spent = 0.0

    def settle(self, now: float) -> None:
        """Account for the spending until `now`, in seconds of a monotonic clock."""
        self.spent = 0.0

    def end(self) -> None:
        """Forbid any further spending."""
        self.left = -inf

    @property
    def is_over(self) -> bool:
        return self.left == -inf


@cython.final
@cython.cclass
class CachedPass:
    """Treatment of methods with exactly this payload: they pass unseen, and are counted.

    With `instead`, that payload is sent in their place. With `allowances`, they are returned once one is used up; with
    `if_plain`, unless the following header is complete and plain: without further names (CC, BCC) and reply-to; with
    `largest` of at least 0, unless the following header announces a body of at most that many bytes.
    """

    def __init__(
        self,
        payload: bytes,
        instead: bytes | None = None,
        allowances: tuple[Credit, ...] = (),
        if_plain: bool = False,
        largest: int = -1,
    ) -> None:
        self.payload = payload
        self._size = len(payload)
        self.count = 0
        self.allowances = allowances
        self.if_plain = if_plain
        self.largest = largest
        self._encoded = b"" if instead is None else encode_frame(METHOD, 0, instead)
        """Replacement frame, for any channel; empty if there is none."""

    @cython.cfunc
    @cython.exceptval(check=False)
    def _may_pass(self, handed_over: cython.Py_ssize_t, spending: list) -> cython.bint:  # type: ignore[type-arg]
        """Whether the allowances suffice, after the `handed_over` methods that must be evaluated first; then spend
        them.
        """
        each: Credit
        for each in self.allowances:
            if each.left < 1 + handed_over:
                return False
        for each in self.allowances:
            if each.spent == 0:
                spending.append(each)
            each.left -= 1
            each.spent += 1
        return True

    def take_back(self) -> None:
        """Undo the passing of a method that is evaluated after all."""
        each: Credit
        self.count -= 1
        for each in self.allowances:
            each.left += 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _eight(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.ulonglong:
    """Return eight bytes as a number; compilers emit a single load."""
    return (
        cython.cast(cython.ulonglong, p[at])
        | cython.cast(cython.ulonglong, p[at + 1]) << 8
        | cython.cast(cython.ulonglong, p[at + 2]) << 16
        | cython.cast(cython.ulonglong, p[at + 3]) << 24
        | cython.cast(cython.ulonglong, p[at + 4]) << 32
        | cython.cast(cython.ulonglong, p[at + 5]) << 40
        | cython.cast(cython.ulonglong, p[at + 6]) << 48
        | cython.cast(cython.ulonglong, p[at + 7]) << 56
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _slot(p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the recent-table slot of a payload of at least twelve bytes."""
    spread: cython.ulonglong = end - start
    at: cython.Py_ssize_t = start + 4
    while at + 8 <= end:
        spread = (spread ^ _eight(p, at)) * _SPREAD
        spread ^= spread >> 29
        at += 8
    spread = (spread ^ _eight(p, end - 8)) * _SPREAD
    return spread >> 56


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _are_alike(
    p: cython.p_const_uchar, start: cython.Py_ssize_t, q: cython.p_const_uchar, size: cython.Py_ssize_t
) -> cython.bint:
    """Whether the bytes from `start` on equal those of `q`, at least eight."""
    at: cython.Py_ssize_t = 0
    while at + 8 <= size:
        if _eight(p, start + at) != _eight(q, at):
            return False
        at += 8
    return _eight(p, start + size - 8) == _eight(q, size - 8)


@cython.final
@cython.cclass
class PassCache:
    """Wanted methods that a reader need not return.

    The few kinds of publish of a publisher are found without creating a lookup object.
    """

    def __init__(self) -> None:
        self._passes: dict[bytes, CachedPass] = {}
        self._recent = _NONE_RECENT

    def __len__(self) -> int:
        return len(self._passes)

    def get(self, payload: bytes) -> CachedPass | None:
        """Return the treatment of methods with that payload."""
        return self._passes.get(payload)

    def add(self, passes: CachedPass) -> None:
        """Add methods that may pass from now on."""
        self._passes[passes.payload] = passes
        size: cython.Py_ssize_t = len(passes.payload)
        if self._recent is _NONE_RECENT:
            self._recent = list(_NONE_RECENT)
        if cython.compiled and size >= 12:
            self._recent[_slot(passes.payload, 0, size)] = passes

    def clear(self) -> None:
        self._passes.clear()
        self._recent = _NONE_RECENT

    @cython.cfunc
    def _find(self, p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> CachedPass | None:
        """Return the entry of methods with this payload, or `None`."""
        found: CachedPass | None
        size: cython.Py_ssize_t = end - start
        if not cython.compiled or size < 12:
            return self._passes.get(p[start:end])
        slot: cython.Py_ssize_t = _slot(p, start, end)
        found = self._recent[slot]
        if found is not None and found._size == size and _are_alike(p, start, found.payload, size):
            return found
        found = self._passes.get(p[start:end])
        if found is not None:
            self._recent[slot] = found
        return found
