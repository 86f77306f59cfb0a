"""Stands in for a package that Qpid's tests import, and need for its own management only."""
