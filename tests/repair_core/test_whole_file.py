"""A file written whole is like any other new file, and is there as a whole or not at all."""

import os
from pathlib import Path

import pytest

from cachemend.repair_core.whole_file import write_whole


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_the_mode_is_that_of_any_new_file(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "made" / "whole", b"x")
        (tmp_path / "plain").write_bytes(b"x")
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "made" / "whole", tmp_path / "plain")]
    assert modes == [0o666 & ~mask] * 2


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    write_whole(target, b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
