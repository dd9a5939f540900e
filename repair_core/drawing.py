"""Random numbers that are the same in every process and release."""

import hashlib


def draw(case_id: str, purpose: str, index: int) -> int:
    """A number from SHA-256 of its arguments, not from a generator whose stream may change between releases."""
    return int.from_bytes(hashlib.sha256(f"{case_id}|{purpose}|{index}".encode()).digest(), "big")
