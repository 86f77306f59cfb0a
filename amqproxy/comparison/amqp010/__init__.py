"""Comparison of 0-10 captures: `dialect` has which methods are requests, and what differs from run to run."""
