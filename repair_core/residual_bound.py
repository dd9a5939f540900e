"""The residual error of a sparse refresh in an attention head, and its bound (paper section 14, Proposition 14.1)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core.attention_reading import LayerReading, read_attention
from cachemend.repair_core.intervals import Positions

Values = npt.NDArray[np.float64]

RELATIVE_SLACK = 1e-9
"""Rounding of the FP64 evaluation that counts as none, relative to the bound ..."""
ABSOLUTE_SLACK = 1e-12
"""... and relative to M_V, where bound and error are themselves of the order of rounding."""


class ResidualBound(NamedTuple):
    """Both sides of the proposition, FP64, all of one shape: heads x rows of a layer, or more.

    Attributes:
        error: |o^A - o*|, of the head's output under repair against that under full-suffix Replay.
        value_term: sum_j alpha_j^A |dv_j|, what is left of the bound at fixed attention (Eq. 28 with alpha^A).
        measured: value_term + 2 M_V max_j |z_j^A - z_j*|, with the logits that were measured (Eq. 25).
        bound: the same with the logits bounded by norms (Eq. 25 with Eq. 26): what the proposition states.
        largest_value: M_V, the largest |v_j*| that the row attends to.
    """

    error: Values
    value_term: Values
    measured: Values
    bound: Values
    largest_value: Values

    @property
    def violated(self) -> npt.NDArray[np.bool_]:
        """Where the error exceeds a bound, or the tighter bound the other, by more than rounding; NaN is no bound."""
        slack = ABSOLUTE_SLACK * self.largest_value

        def within(smaller: Values, larger: Values) -> npt.NDArray[np.bool_]:
            return np.less_equal(smaller, larger * (1 + RELATIVE_SLACK) + slack)

        holds = within(self.error, self.measured) & within(self.measured, self.bound) & within(self.error, self.bound)
        return ~holds


class ResidualProbe(NamedTuple):
    """What was found at the probed rows of one repaired cache.

    Attributes:
        found: [layers, heads, rows].
        reproduced: [layers], how far the probed rows' fresh keys and values are from those in the two caches, the
            largest |fresh - cached| / |cached|. Large, or NaN, means that the probe does not see what the refresh saw.
    """

    found: ResidualBound
    reproduced: Values


def residual_bound(repaired: LayerReading, replayed: LayerReading) -> ResidualBound:
    """Evaluate both sides in FP64 for one layer from its queries, keys and values, [heads, rows] each.

    Args:
        repaired: q^A, k^A, v^A: the mixed cache and what a refreshed row asks it.
        replayed: the same rows under full-suffix Replay.
    """
    heads, kv_heads = repaired.query.shape[0], repaired.keys.shape[0]
    seen = repaired.visible

    def folded(reading: LayerReading) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        query = reading.query.double().reshape(kv_heads, heads // kv_heads, *reading.query.shape[1:])
        return query, reading.keys.double()[:, None], reading.values.double()[:, None]

    def largest(per_key: torch.Tensor) -> torch.Tensor:
        """The largest of [kv heads, 1, N] over what each row sees, [kv heads, 1, rows]."""
        return per_key[..., None, :].expand(-1, -1, *seen.shape).masked_fill(~seen, 0).amax(-1)

    q_a, k_a, v_a = folded(repaired)
    q_r, k_r, v_r = folded(replayed)
    z_a, z_r = (scale * (q @ k.mT) for q, k, scale in ((q_a, k_a, repaired.scale), (q_r, k_r, replayed.scale)))
    alpha_a, alpha_r = (z.masked_fill(~seen, -torch.inf).softmax(-1) for z in (z_a, z_r))
    error = (alpha_a @ v_a - alpha_r @ v_r).norm(dim=-1)
    value_term = (alpha_a @ (v_a - v_r).norm(dim=-1)[..., None])[..., 0]
    change = (z_a - z_r).abs().masked_fill(~seen, 0).amax(-1)
    most_value, most_key = largest(v_r.norm(dim=-1)), largest(k_r.norm(dim=-1))
    moved_query, moved_key = (q_a - q_r).norm(dim=-1), largest((k_a - k_r).norm(dim=-1))
    change_bound = repaired.scale * (most_key * moved_query + (q_r.norm(dim=-1) + moved_query) * moved_key)
    parts = (
        error,
        value_term,
        value_term + 2 * most_value * change,
        value_term + 2 * most_value * change_bound,
        most_value.expand_as(error),
    )
    return ResidualBound(*(part.reshape(heads, -1).cpu().numpy() for part in parts))


def probe_residual(
    model: nn.Module, repaired: Cache, replayed: Cache, token_ids: torch.Tensor, rows: Positions
) -> ResidualProbe:
    """Evaluate the proposition in every layer and head at some refreshed rows.

    Args:
        model: a Hugging Face causal language model.
        repaired: the cache after a sparse refresh, batch 1; not modified.
        replayed: the same context's cache after full-suffix Replay.
        token_ids: the context, int64 [N].
        rows: of the refreshed positions.

    Raises:
        Refused: attention with sinks or a soft cap; the line names the model type.
    """
    under_replay: dict[int, LayerReading] = {}
    layers: dict[int, ResidualBound] = {}

    def keep(reading: LayerReading) -> None:
        under_replay[reading.layer] = reading

    def compare(reading: LayerReading) -> None:
        layers[reading.layer] = residual_bound(reading, under_replay.pop(reading.layer))

    reproduced = read_attention(model, replayed, token_ids, rows, keep)
    reproduced = np.maximum(reproduced, read_attention(model, repaired, token_ids, rows, compare))
    found = ResidualBound(*(np.stack(part) for part in zip(*(layers[i] for i in sorted(layers)), strict=True)))
    return ResidualProbe(found, reproduced)
