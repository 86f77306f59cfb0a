"""Comparison of 0-9-1 captures: `dialect` knows the requests, and the fields that differ in every run."""
