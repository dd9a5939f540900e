"""Triton kernels of packed attention (paper section 13.2, "Indexed attention and writes").

`attend_tile` takes 16 packed rows of one query head through their key tiles with an online softmax. Probabilities stay
in FP32 and enter the value product as TF32x3. With more than one split every program takes a part of the key tiles and
leaves a partial result with its log-sum-exp, which `combine_splits` joins. `scatter_rows` writes fresh keys and values
in one launch; it and the attention are ordered by the stream.
"""

import triton
import triton.language as tl

ROWS = 16
KEYS = 64
# Rows of heads that one program of `combine_splits` joins.
ITEMS = 16
OPTIONS = {"num_warps": 4, "num_stages": 2}


# Triton's own functions, which the kernels call, are made for one or the other when it is first imported.
INTERPRETED = not isinstance(tl.max, triton.JITFunction)


@triton.jit
def attend_tile(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    out: tl.tensor,
    lse: tl.tensor,
    sinks: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    bounds: tl.tensor,
    scale: tl.tensor,
    softcap: tl.tensor,
    rows: tl.tensor,
    length: tl.tensor,
    tiles: tl.tensor,
    meta_rows: tl.tensor,
    meta_tiles: tl.tensor,
    q_b: tl.tensor,
    q_h: tl.tensor,
    q_r: tl.tensor,
    q_d: tl.tensor,
    k_b: tl.tensor,
    k_h: tl.tensor,
    k_n: tl.tensor,
    k_d: tl.tensor,
    v_b: tl.tensor,
    v_h: tl.tensor,
    v_n: tl.tensor,
    v_d: tl.tensor,
    heads: tl.constexpr,
    group: tl.constexpr,
    splits: tl.constexpr,
    width: tl.constexpr,
    value_width: tl.constexpr,
    width_block: tl.constexpr,
    value_block: tl.constexpr,
    row_tile: tl.constexpr,
    key_tile: tl.constexpr,
    has_cap: tl.constexpr,
    has_sinks: tl.constexpr,
    widen: tl.constexpr,
) -> None:
    """One program: one tile of rows, one query head of one sequence, one split of the key tiles.

    meta_rows and meta_tiles are the strides over sequences of first/last and of bounds; 0 where all share them.
    """
    tile = tl.program_id(0)
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    split = tl.program_id(2)
    row = tile * row_tile + tl.arange(0, row_tile)
    # Rows beyond the end repeat the last one and are not stored.
    at = tl.minimum(row, rows - 1)
    dim = tl.arange(0, width_block)
    value_dim = tl.arange(0, value_block)
    column = tl.arange(0, key_tile)
    first_key = tl.load(first + batch * meta_rows + at)
    last_key = tl.load(last + batch * meta_rows + at)
    bound = bounds + batch * meta_tiles + tile
    start = tl.load(bound)
    full_start = tl.load(bound + tiles)
    full_stop = tl.load(bound + 2 * tiles)
    total = tl.load(bound + 3 * tiles)
    share = (total - start + splits - 1) // splits
    begin = start + split * share
    end = tl.minimum(begin + share, total)
    q_at = q + batch * q_b + head * q_h + at[:, None].to(tl.int64) * q_r + dim[None, :] * q_d
    queries = tl.load(q_at, mask=dim[None, :] < width, other=0.0)
    if widen:
        queries = queries.to(tl.float32)
    k_base = k + batch * k_b + (head // group) * k_h + dim[:, None] * k_d
    v_base = v + batch * v_b + (head // group) * v_h + value_dim[None, :] * v_d
    top = tl.full((row_tile,), float("-inf"), tl.float32)
    mass = tl.zeros((row_tile,), tl.float32)
    sums = tl.zeros((row_tile, value_block), tl.float32)
    for phase in tl.static_range(3):
        if phase == 0:
            low = begin
            high = tl.minimum(end, full_start)
        elif phase == 1:
            low = tl.maximum(begin, full_start)
            high = tl.minimum(end, full_stop)
        else:
            low = tl.maximum(begin, full_stop)
            high = end
        for step in range(low, high):
            position = step * key_tile + column
            offset = position.to(tl.int64)
            keys = tl.load(
                k_base + offset[None, :] * k_n, mask=(dim[:, None] < width) & (position[None, :] < length), other=0.0
            )
            if widen:
                keys = keys.to(tl.float32)
            logits = tl.dot(queries, keys, input_precision="tf32x3") * scale
            if has_cap:
                # tanh(x) = 1 - 2 / (exp(2x) + 1)
                logits = softcap * (1.0 - 2.0 / (tl.exp(2.0 * logits / softcap) + 1.0))
            if phase != 1:
                seen = (position[None, :] >= first_key[:, None]) & (position[None, :] <= last_key[:, None])
                logits = tl.where(seen, logits, float("-inf"))
            peak = tl.maximum(top, tl.max(logits, 1))
            # A row may have seen nothing yet: -inf - -inf is no number.
            base = tl.where(peak == float("-inf"), 0.0, peak)
            weights = tl.exp(logits - base[:, None])
            kept = tl.exp(top - base)
            mass = mass * kept + tl.sum(weights, 1)
            values = tl.load(
                v_base + offset[:, None] * v_n,
                mask=(value_dim[None, :] < value_width) & (position[:, None] < length),
                other=0.0,
            )
            sums = sums * kept[:, None] + tl.dot(weights, values.to(tl.float32), input_precision="tf32x3")
            top = peak
    if has_sinks and splits == 1:
        sink = tl.load(sinks + head).to(tl.float32)
        peak = tl.maximum(top, sink)
        kept = tl.exp(top - peak)
        mass = mass * kept + tl.exp(sink - peak)
        sums = sums * kept[:, None]
    stored = ((split * (tl.num_programs(1) // heads) + batch) * rows + row.to(tl.int64)) * heads + head
    place = out + stored[:, None] * value_width + value_dim[None, :]
    result = sums / tl.where(mass == 0.0, 1.0, mass)[:, None]
    keep = (row[:, None] < rows) & (value_dim[None, :] < value_width)
    tl.store(place, result.to(out.dtype.element_ty), mask=keep)
    if splits > 1:
        found = tl.where(mass == 0.0, float("-inf"), top + tl.log(tl.where(mass == 0.0, 1.0, mass)))
        tl.store(lse + stored, found, mask=row < rows)


@triton.jit
def combine_splits(
    partial: tl.tensor,
    lse: tl.tensor,
    sinks: tl.tensor,
    out: tl.tensor,
    count: tl.tensor,
    heads: tl.constexpr,
    splits: tl.constexpr,
    value_width: tl.constexpr,
    value_block: tl.constexpr,
    has_sinks: tl.constexpr,
    item_tile: tl.constexpr,
) -> None:
    """One program: some rows of heads. Partial results [splits, count, value dim] weighted by their log-sum-exp."""
    item = tl.program_id(0).to(tl.int64) * item_tile + tl.arange(0, item_tile)
    dim = tl.arange(0, value_block)
    real = item < count
    peak = tl.full((item_tile,), float("-inf"), tl.float32)
    if has_sinks:
        sink = tl.load(sinks + item % heads).to(tl.float32)
        peak = sink
    for split in tl.static_range(splits):
        peak = tl.maximum(peak, tl.load(lse + split * count + item, mask=real, other=0.0))
    mass = tl.zeros((item_tile,), tl.float32)
    if has_sinks:
        mass = tl.exp(sink - peak)
    sums = tl.zeros((item_tile, value_block), tl.float32)
    keep = real[:, None] & (dim[None, :] < value_width)
    for split in tl.static_range(splits):
        weight = tl.exp(tl.load(lse + split * count + item, mask=real, other=0.0) - peak)
        at = partial + (split * count + item)[:, None] * value_width + dim[None, :]
        mass += weight
        sums += weight[:, None] * tl.load(at, mask=keep, other=0.0)
    result = sums / mass[:, None]
    tl.store(out + item[:, None] * value_width + dim[None, :], result.to(out.dtype.element_ty), mask=keep)


@triton.jit
def scatter_rows(
    keys: tl.tensor,
    values: tl.tensor,
    fresh_keys: tl.tensor,
    fresh_values: tl.tensor,
    positions: tl.tensor,
    positions_b: tl.tensor,
    heads: tl.tensor,
    k_b: tl.tensor,
    k_h: tl.tensor,
    k_n: tl.tensor,
    k_d: tl.tensor,
    v_b: tl.tensor,
    v_h: tl.tensor,
    v_n: tl.tensor,
    v_d: tl.tensor,
    fresh_k_b: tl.tensor,
    fresh_k_h: tl.tensor,
    fresh_k_r: tl.tensor,
    fresh_k_d: tl.tensor,
    fresh_v_b: tl.tensor,
    fresh_v_h: tl.tensor,
    fresh_v_r: tl.tensor,
    fresh_v_d: tl.tensor,
    width: tl.constexpr,
    value_width: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """One program: the key and the value of one row and one head, to the row's position in the cache."""
    row = tl.program_id(0).to(tl.int64)
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    dim = tl.arange(0, block)
    position = tl.load(positions + batch * positions_b + row).to(tl.int64)
    key_at = fresh_keys + batch * fresh_k_b + head * fresh_k_h + row * fresh_k_r + dim * fresh_k_d
    key = tl.load(key_at, mask=dim < width, other=0.0)
    tl.store(keys + batch * k_b + head * k_h + position * k_n + dim * k_d, key, mask=dim < width)
    value_at = fresh_values + batch * fresh_v_b + head * fresh_v_h + row * fresh_v_r + dim * fresh_v_d
    value = tl.load(value_at, mask=dim < value_width, other=0.0)
    tl.store(values + batch * v_b + head * v_h + position * v_n + dim * v_d, value, mask=dim < value_width)
