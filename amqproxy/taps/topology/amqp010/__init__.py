"""Topology of 0-10 clients, from their commands as their 0-9-1 counterparts."""
