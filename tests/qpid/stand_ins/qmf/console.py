"""Of management, which we do not have."""


class Session:
    """No test that needs it is run."""
