"""Finding how many items of growing text fit into a token limit."""

from collections.abc import Callable


def largest_fitting(count: Callable[[int], int], limit: int, smallest: int, guess: int) -> int | None:
    """Return the largest ``n >= smallest`` with ``count(n) <= limit``, or None when `smallest` does not fit.

    `count` grows with ``n``. Counting means tokenizing a whole context, so the next trial interpolates
    between known counts: about five of them for a context of any length.
    """
    fits, over = smallest, 0
    size = {smallest: count(smallest)}
    if size[smallest] > limit:
        return None
    trial = max(guess, smallest + 1)
    while True:
        size[trial] = count(trial)
        if size[trial] <= limit:
            fits = trial
        else:
            over = trial
        if over == fits + 1:
            return fits
        known = over if over else smallest
        slope = (size[known] - size[fits]) / (known - fits) if known != fits else 1.0
        step = int((limit - size[fits]) / max(slope, 1e-9))
        trial = fits + max(1, step)
        if over:
            trial = min(trial, over - 1)
