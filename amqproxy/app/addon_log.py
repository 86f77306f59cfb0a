"""The log of addons: which are installed, and which of them fail."""

from __future__ import annotations

from amqproxy import addons
from amqproxy.process.log import logger


def log_addons() -> None:
    """Log the installed addons, and each later failure."""
    addons.listen(_log_failure)
    if addons.installed():
        logger().info("addons", installed=", ".join(map(str, addons.installed())))
    for each in addons.installed():
        reason = addons.failure(each)
        if reason is not None:
            _log_failure(each, reason)


def _log_failure(addon: addons.Addon, reason: str) -> None:
    logger().warning("addon failed", addon=str(addon), reason=reason)
