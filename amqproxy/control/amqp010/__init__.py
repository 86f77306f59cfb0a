"""Entries of the proxy's 0-10 sessions (`entries`) and of the broker's 0-10 clients (`broker_entries`), for the control
socket.
"""
