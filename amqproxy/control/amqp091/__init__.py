"""Entries of the proxy's 0-9-1 sessions, for the control socket: `entries`."""
