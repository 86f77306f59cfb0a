"""Stands in for a package that Qpid's tests import, and need for its own management only."""

from qpidtoollibs.broker import BrokerAgent  # noqa: F401 - as the package has it
