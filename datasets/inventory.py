"""What data each experiment wants, under which licence, where it belongs and whether it is there."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from cachemend.datasets.sources import PACKAGED, WANTED, Wanted


@dataclass(frozen=True, kw_only=True)
class Source:
    """One data source and its state on this machine.

    Attributes:
        name: the official name.
        what: what it holds and what it is used for.
        licence: its licence as its publisher states it.
        location: where it belongs: a path under the data folder, or the Python package that brings it.
        present: every expected file is there.
        found: the expected files that exist, absolute.
        missing: the expected files, as patterns under the data folder, that do not.
        fetch: how to get it by hand.
    """

    name: str
    what: str
    licence: str
    location: str
    present: bool
    found: tuple[Path, ...]
    missing: tuple[str, ...]
    fetch: str


def inventory(data_dir: Path) -> list[Source]:
    """Return every known data source, the packaged ones first; only the state of the files is looked up."""
    return [_packaged(wanted) for wanted in PACKAGED] + [_in_folder(wanted, data_dir) for wanted in WANTED]


def _in_folder(wanted: Wanted, data_dir: Path) -> Source:
    matches = {pattern: _files(data_dir, pattern) for pattern in wanted.files}
    return _source(wanted, matches, location=wanted.folder)


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(path.resolve() for path in folder.glob(pattern) if path.is_file()) if folder.is_dir() else []


def _packaged(wanted: Wanted) -> Source:
    """A source that comes as an installed Python package: `folder` is the distribution's name."""
    location = f"Python package {wanted.folder}"
    try:
        files = distribution(wanted.folder).files or []
    except PackageNotFoundError:
        return _source(wanted, {pattern: [] for pattern in wanted.files}, location=location)
    matches = {
        pattern: sorted(path for file in files if file.match(pattern) and (path := Path(str(file.locate()))).is_file())
        for pattern in wanted.files
    }
    return _source(wanted, matches, location=location)


def _source(wanted: Wanted, matches: dict[str, list[Path]], *, location: str) -> Source:
    missing = tuple(pattern for pattern, paths in matches.items() if not paths)
    return Source(
        name=wanted.name,
        what=wanted.what,
        licence=wanted.licence,
        location=location,
        present=not missing,
        found=tuple(path for paths in matches.values() for path in paths),
        missing=missing,
        fetch=wanted.fetch,
    )
