"""Runs: their folders, the trained models in them, and what can be done with both."""
