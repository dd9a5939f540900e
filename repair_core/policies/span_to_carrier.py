"""From the edit to the text that holds the answer, which is given (a diagnostic)."""

from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Diagnostic, register
from cachemend.repair_core.truth import Truth


@register
class SpanToCarrier(Diagnostic):
    """All positions from the span to the end of the carrier: the path that a sufficient repair rebuilds in order."""

    name = "span-to-carrier"
    own_length = True

    def select(self, context: StaleContext, truth: Truth, k: int) -> Choice:  # noqa: ARG002
        return Choice(context.pool[context.pool < truth.carrier.stop])
