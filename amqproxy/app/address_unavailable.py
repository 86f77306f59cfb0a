"""Error for addresses of the config that cannot be used."""

from __future__ import annotations


class AddressUnavailable(Exception):
    """An address in the config cannot be used; the text gives the address and the reason."""

    @classmethod
    def because(cls, what: str, error: OSError | ValueError) -> AddressUnavailable:
        """Return the error for a failed operation, with its reason."""
        reason = error.strerror if isinstance(error, OSError) else None
        return cls(f"cannot {what}: {reason or error}")
