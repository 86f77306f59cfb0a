"""Comparison of 0-9-1 captures: `dialect` has which methods are requests, and what differs from run to run."""
