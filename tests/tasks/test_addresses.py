"""Addresses are tried before Ray is asked."""

import socket

import pytest

from cachemend.repair_core.errors import InputError
from cachemend.tasks.addresses import check_reachable


def test_an_open_port_passes_and_a_closed_one_is_named() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", f"http://127.0.0.1:{port}", "auto"):
            check_reachable(address)
    with pytest.raises(InputError, match=rf"127\.0\.0\.1:{port} does not answer"):
        check_reachable(f"127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["", "here", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:99999", "http://"])
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(InputError, match="is not host:port"):
        check_reachable(address)
