"""Choose among the variants of SUR on development cases: ``python -m cachemend.tasks.freeze_variants RESULTS``.

Prints every contrast and the choice. With ``--out FILE`` the choice is written as the JSON that a version of the
package holds as ``repair_core/frozen_variants.json``; reported cases are run after that and never looked at here.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from cachemend.datasets.niah_rosters import ROSTERS
from cachemend.repair_core.described_variants import DESCRIBED
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.whole_file import write_whole
from cachemend.warehouse.report.provenance import read_cohort_names
from cachemend.warehouse.report.rows import read_groups
from cachemend.warehouse.report.variants import DEV, VariantsView, variant_views


def development_view(results: Path) -> VariantsView:
    """Return the development cases of a results folder.

    Raises:
        InputError: there are none, or of several models or settings.
    """
    views = [view for view in variant_views(read_groups(results), read_cohort_names(results), results) if view.dev]
    if len(views) != 1:
        raise InputError(
            f"results folder {results} holds development cases of {len(views)} models or settings; choose on one: "
            "cachemend run erasing-niah --set sweep=questions --set cases=questions-dev-after"
        )
    return views[0]


def require_complete(view: VariantsView) -> None:
    """Raise InputError unless every candidate answered every development case: a choice is made once."""
    rosters = [roster for name, roster in ROSTERS.items() if name.startswith(DEV)]
    cases = sum(len(roster.lengths) * roster.cases_per_length for roster in rosters)
    answered = {one.described.name: one.n for one in view.pooled}
    for described in DESCRIBED:
        if described.candidate and (n := answered.get(described.name, 0)) != cases:
            raise InputError(
                f"variant {described.name} answered {n} of {cases} development cases at every budget of the choice; "
                f"run sweep=questions on {', '.join(roster.name for roster in rosters)} first"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the contrasts and the choice; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cachemend.tasks.freeze_variants", description=__doc__)
    parser.add_argument("results", type=Path, help="results folder with the runs of cases=questions-dev-*")
    parser.add_argument("--out", type=Path, help="write the choice as JSON")
    options = parser.parse_args(arguments)
    try:
        view = development_view(options.results)
        if options.out is not None:
            require_complete(view)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for one in view.pooled:
        low, high = one.difference.low, one.difference.high
        standing = "" if one.described.candidate else ", no candidate"
        print(
            f"{one.described.name:16} {one.mine:5.1f} % against {one.described.reference} {one.theirs:5.1f} %, "
            f"n {one.n}, elsewhere {one.elsewhere}, better {one.better}, worse {one.worse}: "
            f"{one.difference.point:+.1f} [{low:+.1f}, {high:+.1f}], p {one.p:.3g}, "
            f"gold NLL {one.nll.point:+.3f} [{one.nll.low:+.3f}, {one.nll.high:+.3f}]{standing}"
        )
    print(f"chosen: {', '.join(view.chosen or ()) or 'none'}")
    if options.out is not None:
        content = {
            "names": list(view.chosen or ()),
            "cohorts": [identity.cohort_digest for identity in view.identities],
        }
        write_whole(options.out, (json.dumps(content, indent=2) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
