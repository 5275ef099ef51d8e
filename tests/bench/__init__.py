"""Ratios against named peers in the same run. Never part of `make test`."""
