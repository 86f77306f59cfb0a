"""Comparison of 0-10 captures: `dialect` knows the requests, and the fields that differ in every run."""
