"""Calibrate a machine on a model: its own first layers at a few row counts, with and without history."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

from cachemend.repair_core.architecture import check_capability, text_config
from cachemend.repair_core.boundaries import containers
from cachemend.repair_core.caches import Rows, clone_rows, plain_cache, read_rows
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.executors.packed import PackedExecutor
from cachemend.repair_core.executors.packed_attention import ROW_GROUP
from cachemend.repair_core.forward import base_model, input_device, model_lock
from cachemend.repair_core.machine import Machine, calibration_key, machine_file, read_machine, write_machine
from cachemend.repair_core.prefilling import extend
from cachemend.repair_core.relevance import embedding_relevance
from cachemend.repair_core.rotary import cache_rotations
from cachemend.repair_core.rotation import Rotation
from cachemend.repair_core.shapes import Shapes, decoder_layers, first_layers, linear_flops, model_shapes
from cachemend.repair_core.text import Span
from cachemend.repair_core.timing import synchronize
from cachemend.repair_core.units import build_units

ROWS = (1, 4, 16, 64, 256, 1024)
# Positions of the longest run; half of them are history.
POSITIONS = 2048
FEWEST_POSITIONS = 512
# Seconds one timed run should take: as many layers run as fit, so that few rows meet weights no cache holds.
RUN_SECONDS = 0.06
REPEATS = 3
COPIED_BYTES = 32 * 2**20
SIGNAL_TOKENS = 512
SENTENCE = "The meeting moved to room four because the first room was too small for all of us. "


class _Bench(NamedTuple):
    model: nn.Module
    shapes: Shapes
    row: Rows
    positions: int

    def ids(self, count: int) -> torch.Tensor:
        vocabulary = self.model.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
        return ((torch.arange(count, device=input_device(self.model)) * 7919 + 101) % vocabulary)[None]

    def history(self, count: int, layers: int) -> list[Rows]:
        keys, values = (t.expand(-1, -1, count, -1) for t in self.row)
        return clone_rows([Rows(keys, values)] * layers)

    @property
    def row_bytes(self) -> float:
        """Keys and values of one row in one layer."""
        return self.row.keys.nbytes + self.row.values.nbytes

    def flops(self, rows: int) -> float:
        """FLOPs of the products of `rows` rows in one layer of average size."""
        return rows * self.shapes.row_flops / self.shapes.layers

    def average_layers(self, count: int) -> float:
        """The first `count` layers in layers of average size (a mixture may begin with a dense one)."""
        first = list(decoder_layers(self.model))[:count]
        return linear_flops(first, text_config(self.model)) / self.flops(1)

    def affordable(self, layer_seconds: float) -> int:
        """How many layers of that duration one timed run may hold."""
        return max(1, min(self.shapes.layers, int(RUN_SECONDS / layer_seconds)))

    def seconds(self, *functions: Callable[[], object]) -> list[float]:
        """Fastest seconds of each function, timed in turn after an untimed call: other programs only add to them."""
        times: list[list[float]] = [[] for _ in functions]
        for repeat in range(REPEATS + 1):
            for function, taken in zip(functions, times, strict=True):
                synchronize(self.model)
                start = time.perf_counter()
                function()
                synchronize(self.model)
                if repeat:
                    taken.append(time.perf_counter() - start)
        return [min(taken) for taken in times]

    def stock(self, rows: int, history: int, layers: int) -> Callable[[], object]:
        short, ids = first_layers(self.model, layers), self.ids(rows)
        before = self.history(history, layers) if history else []
        return lambda: extend(short, plain_cache(before), ids, history)

    def packed(self, rows: int, length: int, layers: int) -> Callable[[], object]:
        short, cache = first_layers(self.model, layers), self.history(length, layers)
        where = torch.arange(1, rows + 1)[None] * length // rows - 1
        return lambda: PackedExecutor().run(short, cache, self.ids(length), where, in_place=True)


def machine_for(model: nn.Module) -> Machine:
    """The calibration of this machine for `model`, measured once per kind of model and kept as a small JSON file.

    Its key holds all that changes speed: device, threads, dtype, torch, attention and the layers' shapes. A file that
    cannot be read, or holds another key, is measured again. Where it cannot be written, nothing is kept.

    Raises:
        Refused: a model that repair does not support.
    """
    key = calibration_key(model)
    path = machine_file(key)
    found = read_machine(path, key)
    if found is None:
        found = calibrate(model)
        write_machine(path, key, found)
    return found


def calibrate(model: nn.Module) -> Machine:
    """Measure `model` on this machine: seconds for a small model, longer where a single layer is slow.

    Raises:
        Refused: a model that repair does not support, or one with learned positions that knows too few.
    """
    check_capability(model)
    rotation = _rotation(model)
    with model_lock(model), torch.no_grad():
        bench = _bench(model)
        (traversal,) = bench.seconds(bench.stock(1, 0, 0))
        raw = _raw_curve(bench, traversal)
        floor = min(seconds / (n * bench.flops(1)) for n, seconds in raw.items())
        attention, history = _stock_attention(bench, raw, floor)
        curve = _without_attention(bench, raw, attention)
        packed, group = _packed_attention(bench, curve, traversal, floor)
        copying, shifting = _copying(bench, rotation)
        return Machine(
            traversal=traversal,
            rows=tuple(curve),
            rates=tuple(n * bench.flops(1) / seconds for n, seconds in curve.items()),
            attention=1 / attention,
            history=1 / history,
            packed=1 / packed,
            packed_group=group,
            copy=copying,
            shift=shifting,
            signal=_signal(bench),
        )


def _rotation(model: nn.Module) -> Rotation:
    """How shifted keys turn. Where rows cannot be moved a shift only copies: it is of edits in place."""
    try:
        return cache_rotations(model)[0].keys
    except Refused:
        return Rotation(None)


def _bench(model: nn.Module) -> _Bench:
    cache = DynamicCache()
    extend(first_layers(model, 1), cache, torch.ones(1, 1, dtype=torch.long, device=input_device(model)), 0)
    return _Bench(model, model_shapes(model), read_rows(cache)[0], _positions(model))


def _positions(model: nn.Module) -> int:
    """How many positions may be used: a learned table has no row beyond its last."""
    tokens, config = model.get_input_embeddings(), text_config(model)  # type: ignore[operator]
    if not any(isinstance(m, nn.Embedding) and m is not tokens for m in base_model(model).modules()):
        return POSITIONS
    known = min(POSITIONS, config.max_position_embeddings)
    if known < FEWEST_POSITIONS:
        raise Refused(
            f"model type {config.model_type!r} knows {known} positions; a calibration takes {FEWEST_POSITIONS} or more"
        )
    return known


def _raw_curve(bench: _Bench, traversal: float) -> dict[int, float]:
    """Seconds of a layer of average size by row count, attention among the rows included; never falling."""
    curve: dict[int, float] = {}
    (guess,) = bench.seconds(bench.stock(1, 0, 1))
    for rows in (rows for rows in ROWS if rows <= bench.positions):
        growth = 4 if curve and rows > 16 else 2
        layers = bench.affordable(guess if not curve else growth * guess)
        (seconds,) = bench.seconds(bench.stock(rows, 0, layers))
        guess = max(seconds - traversal, 0.05 * seconds) / bench.average_layers(layers)
        curve[rows] = guess = max([guess, *curve.values()])
    return curve


def _stock_attention(bench: _Bench, raw: dict[int, float], floor: float) -> tuple[float, float]:
    """Seconds per attention FLOP and per byte of history of the model's own attention, from two row counts."""
    shapes, equations, targets = bench.shapes, [], []
    history = bench.positions // 2
    for rows in (16, max(rows for rows in ROWS if rows <= bench.positions // 8)):
        layers = bench.affordable(2 * raw[rows])
        alone, after = bench.seconds(bench.stock(rows, 0, layers), bench.stock(rows, history, layers))
        pairs = shapes.stock_pairs(rows, history, layers) - shapes.stock_pairs(rows, 0, layers)
        taken = (rows + history) * bench.row_bytes * layers
        equations.append([pairs * shapes.pair_flops, taken])
        targets.append(max(0.0, after - alone))
    return _split(equations, targets, floor, 1e-12)


def _without_attention(bench: _Bench, raw: dict[int, float], attention: float) -> dict[int, float]:
    curve: dict[int, float] = {}
    for rows, seconds in raw.items():
        share = bench.shapes.stock_pairs(rows, 0) * bench.shapes.pair_flops * attention / bench.shapes.layers
        curve[rows] = max([seconds - share, 0.3 * seconds, *curve.values()])
    return curve


def _packed_attention(bench: _Bench, curve: dict[int, float], traversal: float, floor: float) -> tuple[float, float]:
    """Seconds per attention FLOP, and per layer and row group, of a packed refresh, from two context lengths."""
    rows, shapes, equations, targets = 64, bench.shapes, [], []
    layers = bench.affordable(2 * curve[rows])
    lengths = (bench.positions // 8, bench.positions)
    # A packed refresh ends at the keys and values of its last layer, so one more than is paid for takes part.
    traversed = min(layers + 1, shapes.layers)
    times = bench.seconds(*(bench.packed(rows, length, traversed) for length in lengths))
    products = traversal + curve[rows] * bench.average_layers(layers)
    for length, seconds in zip(lengths, times, strict=True):
        equations.append([shapes.packed_pairs(rows, 0, length, layers) * shapes.pair_flops, layers * rows / ROW_GROUP])
        targets.append(max(0.0, seconds - products))
    return _split(equations, targets, floor, 0.0)


def _split(equations: list[list[float]], targets: list[float], floor: float, other_floor: float) -> tuple[float, float]:
    """Least squares of two costs; no FLOP is cheaper than in the best product."""
    (a, b), (c, d) = equations
    determinant = a * d - b * c
    first = (targets[0] * d - targets[1] * b) / determinant
    first = min(max(first, floor), max(targets[0] / a, targets[1] / c, floor))
    rest = [(t - first * e[0]) / e[1] for t, e in zip(targets, equations, strict=True)]
    return first, max(other_floor, sum(rest) / 2)


def _copying(bench: _Bench, rotation: Rotation) -> tuple[float, float]:
    """Bytes/s of copying K/V rows, and of shifting them."""
    layers = max(1, min(bench.shapes.layers, int(COPIED_BYTES / (POSITIONS * bench.row_bytes))))
    rows = bench.history(POSITIONS, layers)
    size = layers * POSITIONS * bench.row_bytes

    def move() -> None:
        for keys, values in rows:
            torch.cat((keys[:, :, :8], rotation.apply(keys[:, :, 16:], -8)), dim=-2)
            torch.cat((values[:, :, :8], values[:, :, 16:]), dim=-2)

    copied, shifted = bench.seconds(lambda: clone_rows(rows), move)
    return size / copied, size / shifted


def _signal(bench: _Bench) -> float:
    """Seconds per suffix token of units and relevance, on plain English text of four characters a token."""
    text = SENTENCE * (4 * SIGNAL_TOKENS // len(SENTENCE) + 1)
    spans = tuple(Span(4 * i, 4 * i + 4) for i in range(SIGNAL_TOKENS))
    ids = bench.ids(SIGNAL_TOKENS)[0].tolist()

    def select() -> None:
        build_units(spans, containers(text[: 4 * SIGNAL_TOKENS], [0]))
        embedding_relevance(bench.model, ids, ids[:8])

    return bench.seconds(select)[0] / SIGNAL_TOKENS
