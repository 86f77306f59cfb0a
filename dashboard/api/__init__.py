"""REST, a router for each kind of thing; all paths are below /api/v1."""
