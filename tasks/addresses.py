"""Addresses of Ray clusters and job servers, checked without Ray."""

import socket
from urllib.parse import urlsplit

from cachemend.repair_core.errors import InputError

_REACH_SECONDS = 5.0


def check_reachable(address: str) -> None:
    """Try an address's port: Ray itself waits two minutes for a cluster that is not there.

    Args:
        address: host:port, ray://host:port, http://host:port, or "auto" for the cluster this process runs in.

    Raises:
        InputError: nothing listens there, or it is no address.
    """
    if address == "auto":
        return
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise InputError(f"Ray address {address!r} is not host:port, ray://host:port, http://host:port or auto")
    try:
        socket.create_connection((host, port), timeout=_REACH_SECONDS).close()
    except OSError as error:
        raise InputError(f"Ray cluster {address} does not answer ({error.strerror or error})") from error
