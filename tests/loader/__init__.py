"""Scenarios for the loader model, each compared with what a real child process did."""
