"""The version of everything that makes signals of texts, the lexicon apart."""

EXTRACTOR_VERSION = 3
"""Raised by hand whenever extraction, matching or guards give other results by the same lexicon."""
