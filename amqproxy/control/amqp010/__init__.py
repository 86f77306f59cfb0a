"""0-10 sessions of the proxy (`entries`) and 0-10 clients of the broker (`broker_entries`), as the control socket lists
them.
"""
