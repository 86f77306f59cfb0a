"""0-9-1 sessions of the proxy, as the control socket lists them: `entries`."""
