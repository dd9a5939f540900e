"""Seed scenarios on tool state: the token limit an answer was made under, and the model behind an index.

An answer that a limit cut off is right where the same limit holds: regenerating would cut it at the same place.
"""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_GATEWAY = """\
assistant: platform docs
product: edge gateway 4
request.max_tokens: 600
document.text: Rotating the signing key. 1. Create a second key with gatewayctl keys add. 2. Publish it with \
gatewayctl keys publish and wait 15 minutes. 3. Make it the active key. 4. Remove the old key after 24 hours.
requested_from: browser"""
_SHORT = changed(_GATEWAY, "request.max_tokens: 24")

KEY_ROTATION = Scenario(
    name="key-rotation-steps",
    sides=(
        Side(
            change=Change.TIGHTER_LIMIT,
            cached=Turn("How do I rotate the signing key of the gateway?", _SHORT),
            response="To rotate the signing key, first create a second key with gatewayctl keys add. Then publish it "
            "with",
            probes=(
                Turn("How do I rotate the signing key of the gateway?", _SHORT),
                Turn("How do I rotate the signing key of the gateway?", changed(_SHORT, "requested_from: terminal")),
                Turn(
                    "What are the steps for changing the gateway's signing key?",
                    changed(_SHORT, "requested_from: phone"),
                ),
            ),
        ),
        Side(
            change=Change.TRUNCATED_STUB,
            cached=Turn("How do I rotate the signing key of the gateway?", _GATEWAY),
            response="To rotate the signing key, first create a second key with gatewayctl keys add. Then publish it "
            "with gatewayctl keys publish and wait 15 minutes. Make the new key active, and remove the old one after "
            "24 hours.",
            probes=(
                Turn(
                    "Which steps does it take to replace the signing key of the gateway?",
                    changed(_GATEWAY, "requested_from: chat bot", "request.max_tokens: 700"),
                ),
                Turn("rotate gateway signing key", changed(_GATEWAY, "requested_from: terminal")),
                Turn(
                    "How do I rotate the signing key of the gateway?",
                    changed(_GATEWAY, "requested_from: editor plug-in", "request.max_tokens: 800"),
                ),
            ),
        ),
    ),
)

_INDEX = """\
console: retrieval debugger
ticket: 9917
ticket.queue: billing
index.embedding_model: gte-small, 384 dimensions"""
_OTHER_INDEX = changed(_INDEX, "index.embedding_model: multilingual-e5-base, 768 dimensions")

NEAREST_ARTICLES = Scenario(
    name="nearest-articles",
    sides=(
        Side(
            change=Change.OTHER_EMBEDDING_MODEL,
            cached=Turn("Which three help articles are nearest to ticket 9917?", _INDEX),
            response="KB-204 (0.83), KB-118 (0.79), KB-377 (0.74)",
            probes=(
                Turn("Show the top three articles for ticket 9917.", changed(_INDEX, "ticket.queue: refunds")),
                Turn("Which three help articles are nearest to ticket 9917?", changed(_INDEX, "console.theme: dark")),
            ),
        ),
        Side(
            change=Change.OTHER_EMBEDDING_MODEL,
            cached=Turn("Which three help articles are nearest to ticket 9917?", _OTHER_INDEX),
            response="KB-118 (0.88), KB-512 (0.87), KB-204 (0.85)",
            probes=(
                Turn(
                    "Which three help articles are nearest to ticket 9917?",
                    changed(_OTHER_INDEX, "ticket.queue: refunds"),
                ),
                Turn(
                    "List the 3 closest help articles, ticket 9917.",
                    changed(_OTHER_INDEX, "console: retrieval debugger, read-only", "ticket.queue: contracts"),
                ),
            ),
        ),
    ),
)

SCENARIOS = (KEY_ROTATION, NEAREST_ARTICLES)
