"""`cachemend calibrate`: from a user's own cache log to a reuse policy, or to a sheet to label (paper section 3.4)."""

import sys
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from cachemend.calibration.conditions import EXTRACTOR_VERSION, load_lexicon
from cachemend.calibration.routing import DEFAULT_GRID, ReusePolicy, route
from cachemend.calibration.splits import Split
from cachemend.datasets.audit_sheet import read_label_sheet, write_label_sheet
from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_log import Log, LogRow, read_log
from cachemend.flows.calibrate_choosing import (
    SIMILARITY_ALONE,
    SIMILARITY_AND_VERIFIER,
    Chosen,
    by_similarity,
    certify,
    choose,
    policies,
)
from cachemend.flows.calibrate_files import SHEET, action_names, output_folder, write_policy, write_scores
from cachemend.flows.calibrate_measuring import VerdictFile, measure
from cachemend.flows.calibrate_options import CalibrateOptions
from cachemend.flows.calibrate_parts import NAMES, Parts, make_parts, split_pairs
from cachemend.flows.calibrate_report import by_name, on_test, print_chosen, print_split, print_tested, print_use
from cachemend.repair_core.errors import InputError
from cachemend.tasks.encoding import Encoder, load_encoder

_LARGE_CLUSTER = 0.02
_ENTRY = attrgetter("q_cache", "r_cache", "context_cache")


def calibrate(options: CalibrateOptions) -> None:
    """Calibrate a policy on a labelled log; score an unlabelled one and write the sheet to label.

    Raises:
        InputError: a log, sheet, verdict file, encoder or folder that cannot be used; nothing is written.
        CalibrationError: data that cannot be calibrated on; nothing is written.
    """
    log = read_log(options.file)
    pairs = _labelled(log, options)
    verdicts = None if options.verdicts is None else VerdictFile(options.verdicts)
    if not pairs:
        _refuse_filled(options)
        encoder = load_encoder(options.encoder)
        with output_folder(options.folder):
            print(log.summary)
            _score(log.unlabelled, encoder, options)
        return
    split = split_pairs(pairs, options.seed)
    encoder = load_encoder(options.encoder)
    with output_folder(options.folder):
        print(log.summary)
        if options.labels is not None:
            print(f"labels: {len(pairs) - len(log.pairs)} more from {options.labels}")
        _warn_of_clusters([pair.cluster for pair in pairs])
        print_split(pairs, split, options.alpha)
        _calibrate(pairs, split, encoder, verdicts, options)


def _labelled(log: Log, options: CalibrateOptions) -> list[Pair]:
    """The labelled pairs of log and sheet; equal cached entries together, whose conditions are extracted once."""
    pairs = list(log.pairs)
    if options.labels is not None:
        if not log.unlabelled:
            raise InputError(f"{options.file} has no rows without a label; leave --labels out")
        pairs += read_label_sheet(options.labels, log.unlabelled)
    return sorted(pairs, key=_ENTRY)


def _calibrate(
    pairs: Sequence[Pair], split: Split, encoder: Encoder, verdicts: VerdictFile | None, options: CalibrateOptions
) -> None:
    ids, candidates = [pair.pair_id for pair in pairs], [pair.candidate for pair in pairs]
    measured = measure(candidates, encoder)
    verified = np.zeros(len(pairs), dtype=bool)
    if verdicts is not None:
        verified = verdicts.verified(ids, candidates, measured.similarity)
    parts = make_parts(pairs, measured, verified, split, options.seed)
    chosen = _choose(parts, options)
    print_chosen(chosen)
    _test(parts, chosen, options)
    lexicon = load_lexicon()
    policy = ReusePolicy(
        lexicon_version=lexicon.version,
        lexicon_digest=lexicon.digest,
        extractor_version=EXTRACTOR_VERSION,
        encoder=encoder.identity,
        alpha=options.alpha,
        budget=options.budget,
        thresholds=chosen.thresholds,
        risk_map=parts.risk_map,
        own_guards=True,
        calibration=chosen.counts,
        selected_by=chosen.selected_by,
    )
    part = np.empty(len(pairs), dtype=object)
    for name, rows in split._asdict().items():
        part[rows] = NAMES[name]
    scores = {
        "part": part,
        "label": [pair.label for pair in pairs],
        **{name: getattr(parts.scores, name) for name in ("similarity", "d", "u", "h")},
        "action": action_names(route(parts.scores, chosen.thresholds)),
    }
    print(f"scores: {write_scores(options.folder, ids, scores)}")
    print_use(write_policy(options.folder, policy), encoder.identity)


def _choose(parts: Parts, options: CalibrateOptions) -> Chosen:
    alpha, budget, grid = options.alpha, options.budget, policies(options.budget)
    if options.certify:
        return certify(parts.dev, parts.cal, alpha=alpha, budget=budget, grid=grid, seed=options.seed)
    return choose(parts.cal, alpha=alpha, budget=budget, grid=grid)


def _test(parts: Parts, chosen: Chosen, options: CalibrateOptions) -> None:
    """Print the router on the test part, and what similarity selected on the same calibration part comes to there."""
    budget, plain = options.budget, " (not certified)" if options.certify else ""
    cal, test = by_similarity(parts.cal), by_similarity(parts.test)
    alone = choose(cal, alpha=options.alpha, budget=0.0, grid=SIMILARITY_ALONE)
    tested = [
        on_test("router", parts.test, chosen.thresholds, budget),
        on_test(by_name(alone.thresholds) + plain, test, alone.thresholds, 0.0),
    ]
    if budget:
        both = choose(cal, alpha=options.alpha, budget=budget, grid=SIMILARITY_AND_VERIFIER)
        tested.append(on_test(by_name(both.thresholds) + plain, test, both.thresholds, budget))
    print_tested(tested, len(np.unique(parts.test.clusters)))


def _score(rows: Sequence[LogRow], encoder: Encoder, options: CalibrateOptions) -> None:
    rows = sorted(rows, key=lambda row: _ENTRY(row.candidate))
    _warn_of_clusters([row.cluster for row in rows])
    measured = measure([row.candidate for row in rows], encoder)
    columns = {name: getattr(measured.signals, name) for name in ("d_match", "u_match", "h_rule", "h_ctx", "h_own")}
    scores = write_scores(options.folder, [row.pair_id for row in rows], {"similarity": measured.similarity, **columns})
    sheet = write_label_sheet(rows, measured.similarity, options.folder / SHEET)
    print(
        f"no labels: wrote {scores} and {sheet}; write 1 or 0 in the column verdict of every row with a score of "
        f"{min(DEFAULT_GRID.tau_r):g} or more ({min(DEFAULT_GRID.tau_v):g} for a policy with a verifier), then run "
        f"cachemend calibrate {options.file} --labels {sheet}"
    )


def _refuse_filled(options: CalibrateOptions) -> None:
    """Refuse to write over a sheet: somebody may have filled it in."""
    sheet = options.folder / SHEET
    if sheet.exists():
        raise InputError(f"{sheet} is there already; give it as --labels, or give another --out")


def _warn_of_clusters(clusters: Sequence[str]) -> None:
    name, largest = Counter(clusters).most_common(1)[0]
    if largest > _LARGE_CLUSTER * len(clusters):
        print(
            f"warning: the largest cluster, {name!r}, is {100 * largest / len(clusters):.1f} % of {len(clusters)} "
            f"rows, above {100 * _LARGE_CLUSTER:g} %; the results rest on few independent entries",
            file=sys.stderr,
        )
