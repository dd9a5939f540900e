"""The texts of cases: from the tables of cases where a run stored them, else from the cohort file of the folder."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cachemend.warehouse import store

Source = Literal["cases", "cohort file"]


class CaseText(NamedTuple):
    """What a case says, as far as the results folder tells.

    Attributes:
        context: the edited context; deleted: what was cut out of it, or what an edit replaced; query: the question.
        stops: where each token of the edited context ends in `context`, characters; None if not recorded.
        source: where the texts come from; None when there are none.
    """

    context: str | None = None
    deleted: str | None = None
    query: str | None = None
    stops: Sequence[int] | None = None
    source: Source | None = None


class Texts:
    """The texts of a results folder's cases, by cohort and case digest; cohort files are read when first needed."""

    def __init__(self, results: Path) -> None:
        self._folder = results / "cohorts"
        self._file = lru_cache(maxsize=None)(self._read)
        names = "experiment, cohort_digest, case_digest, context_text, deleted_text, query_text, token_stops"
        edited = names.replace("deleted_text", "old_span_text AS deleted_text")
        both = f"SELECT {names} FROM cases UNION ALL BY NAME SELECT {edited} FROM edit_cases"
        rows = store.ask(results, both).table.to_pylist()
        self._rows = {(row["experiment"], row["cohort_digest"], row["case_digest"]): row for row in rows}

    def of(self, experiment: str, cohort_digest: str, case_digest: str) -> CaseText:
        """Return a case's texts. A case of a cohort file counts only if its content has the digest asked for."""
        row = self._rows.get((experiment, cohort_digest, case_digest), {})
        stops = row.get("token_stops")
        if row.get("context_text") is not None:
            return CaseText(row["context_text"], row["deleted_text"], row["query_text"], stops, "cases")
        case = self._file(cohort_digest).get(case_digest)
        if case is None:
            return CaseText(stops=stops)
        deleted = case.get("deleted_text", case.get("old_span_text"))
        return CaseText(case["context_text"], deleted, case["query_text"], stops, "cohort file")

    def _read(self, cohort_digest: str) -> Mapping[str, Mapping[str, Any]]:
        if Path(cohort_digest).name != cohort_digest:
            return {}  # a name that leads out of the folder
        try:
            content = json.loads((self._folder / f"{cohort_digest}.json").read_text(encoding="utf-8"))
            return {_digest(case): case for case in content["cases"]}
        except (OSError, ValueError, KeyError, TypeError):
            return {}  # no such file, or not a cohort: the page says that the texts were not found


def _digest(case: Mapping[str, Any]) -> str:
    text = json.dumps(case, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
