"""One addon of each kind, as an example: see docs/addons.md."""
