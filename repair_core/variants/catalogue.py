"""The rule of every variant, by its name in `described_variants`."""

import math

from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.variants.boundaries import by_windows, fixed_blocks
from cachemend.repair_core.variants.components import by_aggregation, by_bonus, by_thresholds
from cachemend.repair_core.variants.joint import best_tokens, prompt_share, sur_units, whole_units_share
from cachemend.repair_core.variants.relevance import bridged, by_hybrid, rank_sum, two_stage, z_sum
from cachemend.repair_core.variants.variant import Variant
from cachemend.repair_core.variants.windows import backward, by_unit_tails, by_window, forward, head, symmetric, tail

_SCORES = (Signal.EMBEDDINGS,)

VARIANTS: dict[str, Variant] = {
    "sur-head": Variant(select=by_window(head)),
    "sur-tail": Variant(select=by_window(tail)),
    "sur-backward": Variant(select=by_window(backward)),
    "sur-symmetric": Variant(select=by_window(symmetric)),
    "sur-tails-2": Variant(select=by_unit_tails(2)),
    "sur-tails-4": Variant(select=by_unit_tails(4)),
    "fixed-blocks": Variant(select=fixed_blocks),
    "windows-1": Variant(select=by_windows(1), signals=_SCORES),
    "windows-2": Variant(select=by_windows(2), signals=_SCORES),
    "windows-4": Variant(select=by_windows(4), signals=_SCORES),
    "sur-bonus-0": Variant(select=by_bonus(0.0)),
    "sur-bonus-0.5": Variant(select=by_bonus(0.5)),
    "sur-top-1": Variant(select=by_aggregation(1)),
    "sur-top-all": Variant(select=by_aggregation(None)),
    "sur-decay-0": Variant(select=by_window(forward(0.0))),
    "sur-decay-4": Variant(select=by_window(forward(math.exp(-1 / 4)))),
    "sur-decay-64": Variant(select=by_window(forward(math.exp(-1 / 64)))),
    "sur-min-16": Variant(select=by_thresholds(min_tokens=16), signals=_SCORES),
    "sur-min-32": Variant(select=by_thresholds(min_tokens=32), signals=_SCORES),
    "sur-max-16": Variant(select=by_thresholds(max_tokens=16), signals=_SCORES),
    "sur-max-32": Variant(select=by_thresholds(max_tokens=32), signals=_SCORES),
    "sur-of-prompt": Variant(select=sur_units, allowance=prompt_share),
    "joint-mean-head": Variant(select=by_aggregation(None, head), allowance=prompt_share),
    "matched-tokens": Variant(select=best_tokens, allowance=whole_units_share),
    "whole-units": Variant(select=sur_units, allowance=whole_units_share),
    "hybrid-z": Variant(select=by_hybrid(z_sum)),
    "hybrid-rank": Variant(select=by_hybrid(rank_sum)),
    "sur-two-stage": Variant(select=two_stage),
    "sur-bridged": Variant(select=bridged),
}
