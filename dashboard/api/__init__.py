"""The REST API, one router for each kind of resource; all paths are below /api/v1."""
