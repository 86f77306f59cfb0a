"""Methods that a reader lets pass without making a frame of them, by their payload.

What decides on frames (a proxy's rules) fills a reader's `PassCache`, and limits what passes by `Credit`.
"""

from __future__ import annotations

from math import inf

from amqproxy.amqp091.frame import METHOD, encode_frame

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

# Where an empty `PassCache` looks, and never writes; others first look among those that they found last.
_NONE_RECENT: list[CachedPass | None] = [None] * 256
_SPREAD = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)


@cython.cclass
class Credit:
    """How much may still pass unseen: each method takes one of what is `left`, while that is there.

    `spent` is what has been taken since its owner last refilled it.
    """

    def __init__(self, left: float = 0.0) -> None:
        self.left = left
        self.spent = 0.0

    def settle(self, now: float) -> None:
        """Take note of what has been spent by `now`, in seconds of a steady clock."""
        self.spent = 0.0

    def end(self) -> None:
        """Nothing more may ever be spent of it."""
        self.left = -inf

    @property
    def is_over(self) -> bool:
        return self.left == -inf


@cython.final
@cython.cclass
class CachedPass:
    """What a reader does with methods whose payload is this, to the byte: it lets them pass unseen, and counts them.

    With `instead`, that payload goes on in their place. With `allowances`, they are handed over where one is used up;
    `if_plain`, unless the header that follows is there and plain: it holds no further names, neither CC nor BCC, and
    no reply-to.
    """

    def __init__(
        self,
        payload: bytes,
        instead: bytes | None = None,
        allowances: tuple[Credit, ...] = (),
        if_plain: bool = False,
    ) -> None:
        self.payload = payload
        self._size = len(payload)
        self.count = 0
        self.allowances = allowances
        self.if_plain = if_plain
        self._encoded = b"" if instead is None else encode_frame(METHOD, 0, instead)
        """Of the frame that goes on, on whichever channel; none, if it is theirs."""

    @cython.cfunc
    @cython.exceptval(check=False)
    def _may_pass(self, handed_over: cython.Py_ssize_t, spending: list) -> cython.bint:  # type: ignore[type-arg]
        """Is there enough, also for those that are `handed_over` and must be asked about first? Then it is spent."""
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
        """One that was let pass is looked at after all."""
        each: Credit
        self.count -= 1
        for each in self.allowances:
            each.left += 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _eight(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.ulonglong:
    """Eight bytes as a number: compilers make one load of it."""
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
    """Where among the recent ones to look for a payload of at least twelve bytes."""
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
    """Are the bytes from `start` on those of `q`, of which there are eight at least?"""
    at: cython.Py_ssize_t = 0
    while at + 8 <= size:
        if _eight(p, start + at) != _eight(q, at):
            return False
        at += 8
    return _eight(p, start + size - 8) == _eight(q, size - 8)


@cython.final
@cython.cclass
class PassCache:
    """The methods that a reader need not hand over, though they are wanted.

    A publisher's few kinds of publish are found without making anything to look them up with.
    """

    def __init__(self) -> None:
        self._passes: dict[bytes, CachedPass] = {}
        self._recent = _NONE_RECENT

    def __len__(self) -> int:
        return len(self._passes)

    def get(self, payload: bytes) -> CachedPass | None:
        """What is done with the methods of that payload."""
        return self._passes.get(payload)

    def add(self, passes: CachedPass) -> None:
        """Let methods pass from now on."""
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
        """The entry of the methods with this payload; or None."""
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
