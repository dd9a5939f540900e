"""Calling a line once before it is timed: what cannot run here gets a row that says why."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from cachemend.repair_core.errors import InputError
from cachemend.tasks.failures import outcome_of

logger = logging.getLogger(__name__)


class Attempt(NamedTuple):
    """How a line's first call ended, as a row's columns: "ok" and None, or why not."""

    outcome: str
    error: str | None


OK = Attempt("ok", None)


def attempt(name: str, function: Callable[[], object]) -> Attempt:
    """Call `function`; a failure of any kind is the line's result, not the benchmark's end."""
    try:
        function()
    except InputError as error:
        return Attempt(*outcome_of(error))
    except Exception as error:
        logger.exception("%s cannot run", name)
        return Attempt(*outcome_of(error))
    return OK
