"""The tokens with which the proxy itself logs in, and their successors."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.proxy.amqp091.pools.pool_login import LoggedIn
from amqproxy.proxy.logins.credential import Credential, CredentialSource


class OwnTokens:
    """Follows the proxy's own credentials; `renew` is called with each token that replaces another."""

    def __init__(self, renew: Callable[[Credential], None]) -> None:
        self.renewals = 0
        self._renew = renew
        self._latest: Credential | None = None
        self._source: CredentialSource | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    @property
    def source(self) -> CredentialSource | None:
        return self._source

    @source.setter
    def source(self, source: CredentialSource | None) -> None:
        if source is not self._source:
            self._unsubscribe()
            self._source = source
            self._unsubscribe = (lambda: None) if source is None else source.subscribe(self._note)

    def _note(self, credential: Credential) -> None:
        self.renewals, self._latest = self.renewals + 1, credential
        if credential.is_token:
            self._renew(credential)

    def catch_up(self, logged_in: LoggedIn, credential: Credential, renewals: int) -> None:
        """Set the successor of a connection's token, if the tokens were renewed since there were `renewals`."""
        latest = self._latest
        if credential.is_token and latest is not None and self.renewals > renewals and latest.user == credential.user:
            logged_in.successor = latest.password
