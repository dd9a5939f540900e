"""Measure what to recompute when an LLM's context changes, and when a cached answer is still safe to return."""

__version__ = "0.1.0"
