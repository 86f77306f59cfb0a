"""Effect of rules on the command that frames belong to, for taps that are shown the frames."""

from __future__ import annotations

from typing import NamedTuple

from amqproxy.peer import CLIENT, SERVER, Peer

LEGS = {CLIENT: "client", SERVER: "upstream"}
"""Name of the leg to each peer, in the form shown to taps."""


class Note(NamedTuple):
    """The `rules` that acted on a command, the `tags` that it was given, and its `verdict`, which is an `Outcome`.

    `leg` is where the frames were seen, "client" or "upstream", if the two legs differ; else "". The note of frames
    `is_continued` if further frames of the command follow under the same note. `comments` are what users wrote on the
    packet that the frames were read from.
    """

    rules: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    verdict: str = ""
    leg: str = ""
    is_continued: bool = False
    comments: tuple[str, ...] = ()

    @property
    def ends_content(self) -> bool:
        """Whether the rest of the command's content is not shown, since the command is not forwarded."""
        return not self.is_continued and self.leg == "client" and self.verdict in ("refused", "dropped")

    @property
    def before_last(self) -> Note:
        """The note of all parts but the last, where frames are shown in parts: only the last can end the content."""
        return self._replace(is_continued=True) if self.ends_content else self

    @property
    def uncommented(self) -> Note:
        """The effect of rules alone."""
        return NOTHING if self == (*NOTHING[:-1], self.comments) else self._replace(comments=())

    def is_of_proxy(self, sender: Peer) -> bool:
        """Whether frames in the name of `sender` came from the proxy: they passed on the other peer's leg only.

        A command that was forwarded in another form came on the sender's own leg, too.
        """
        return self.leg == _FAR_LEGS[sender] and self.verdict not in _PASSED


_FAR_LEGS = {CLIENT: "upstream", SERVER: "client"}
"""The leg on which each peer only receives."""

_PASSED = frozenset(("held", "delayed", "changed", "impaired", "shadow"))
"""Verdicts of commands that were forwarded, perhaps changed: the frames of the two legs may differ."""

NOTHING = Note()
"""Note of a frame that passed unchanged, and that no rule acted on."""
