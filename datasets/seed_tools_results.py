"""Seed scenarios on tool state: what a tool has answered so far, and whether it may be called."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_PARCEL = """\
desk: parcel help
channel: chat
parcel: RX-5521-07"""
_DOWN = _PARCEL + "\ncarrier.tracking: error 503, incident 8841 open"
_SCAN = _PARCEL + "\ncarrier.tracking: ok\ncarrier.last_scan: Tilburg depot 06:12, out for delivery"

PARCEL_TRACKING = Scenario(
    name="parcel-tracking",
    sides=(
        Side(
            change=Change.NOW_FAILING,
            cached=Turn("Where is my parcel RX-5521-07?", _DOWN),
            response="The carrier's tracking service is not answering right now (incident 8841), so I cannot see "
            "where RX-5521-07 is. Please ask again in an hour.",
            probes=(
                Turn(
                    "Can you tell me where RX-5521-07 is at the moment?",
                    changed(_DOWN, "channel: web form", "desk: parcel help, evening"),
                ),
                Turn(
                    "Where is my parcel RX-5521-07?",
                    changed(_DOWN, "channel: telephone", "line: 2", "waiting: 4 callers"),
                ),
            ),
        ),
        Side(
            change=Change.CACHED_ERROR,
            cached=Turn("Where is my parcel RX-5521-07?", _SCAN),
            response="RX-5521-07 left the Tilburg depot at 06:12 and is out for delivery, so it should arrive today.",
            probes=(
                Turn("Where is my parcel RX-5521-07?", changed(_SCAN, "channel: e-mail")),
                Turn(
                    "RX-5521-07, where is it?",
                    changed(_SCAN, "channel: mobile app", "app.version: 7.4", "banner: summer sale, free returns"),
                ),
            ),
        ),
    ),
)

_ANALYST = """\
assistant: analytics
database: shop_eu
user.team: logistics"""
_NO_COLUMN = _ANALYST + "\nquery.error: 42703 column orders.shipped_on does not exist"
_COUNTED = _ANALYST + "\nquery.result: late 214, total 3906"

LATE_ORDERS = Scenario(
    name="late-orders-query",
    sides=(
        Side(
            change=Change.NOW_FAILING,
            cached=Turn("How many orders were shipped late in March?", _NO_COLUMN),
            response="The query failed: the table orders has no column shipped_on (error 42703). I cannot count late "
            "orders until the column is there.",
            probes=(
                Turn("Count the orders that went out late in March.", changed(_NO_COLUMN, "user.team: purchasing")),
                Turn(
                    "late orders, March?",
                    changed(_NO_COLUMN, "user.team: finance", "chart: bars", "saved_view: spring 2024"),
                ),
            ),
        ),
        Side(
            change=Change.CACHED_ERROR,
            cached=Turn("How many orders were shipped late in March?", _COUNTED),
            response="214 of 3,906 orders were shipped late in March, which is 5.5 %.",
            probes=(
                Turn(
                    "How many orders were shipped late in March?",
                    changed(
                        _COUNTED, "user.team: customer service", "chart: table", "saved_view: complaints by region"
                    ),
                ),
                Turn(
                    "What number of March orders left the warehouse too late?",
                    changed(_COUNTED, "user.team: warehouse", "assistant: analytics, embedded"),
                ),
            ),
        ),
    ),
)

_POD = """\
agent: cluster operator
namespace: shop
shift: night
User: checkout-api-6f9 has been restarting since two o'clock."""
_DESCRIBED = (
    _POD
    + '\nAgent: {"tool": "kubectl", "arguments": "describe pod checkout-api-6f9 -n shop"}'
    + "\nTool: Last State: Terminated; Reason: OOMKilled; Restart Count: 7; Limits: memory 256Mi"
)

RESTARTING_POD = Scenario(
    name="restarting-pod",
    sides=(
        Side(
            change=Change.BEFORE_TOOL_RESULT,
            cached=Turn("Find out why.", _POD),
            response='{"tool": "kubectl", "arguments": "describe pod checkout-api-6f9 -n shop"}',
            probes=(
                Turn("Find out why.", _POD),
                Turn("Please look into the reason.", changed(_POD, "shift: day")),
            ),
        ),
        Side(
            change=Change.AFTER_TOOL_RESULT,
            cached=Turn("Find out why.", _DESCRIBED),
            response="The container was killed seven times because it needed more memory than its limit of 256Mi "
            "(OOMKilled). Raise the limit or look for a leak in the last release.",
            probes=(
                Turn("What is the cause?", changed(_DESCRIBED, "shift: evening")),
                Turn("Find out why.", changed(_DESCRIBED, "shift: weekend")),
            ),
        ),
    ),
)

_BRANCH = """\
agent: build helper
branch: feat/invoices
requested_by: Sunniva
User: Let me know whether my branch is green."""
_RAN = (
    _BRANCH
    + '\nAgent: {"tool": "ci.status", "branch": "feat/invoices"}'
    + "\nTool: 412 passed, 1 failed: tests/test_totals.py::test_vat, expected 19.00, got 18.99"
)

BRANCH_STATUS = Scenario(
    name="branch-status",
    sides=(
        Side(
            change=Change.BEFORE_TOOL_RESULT,
            cached=Turn("Go on.", _BRANCH),
            response='{"tool": "ci.status", "branch": "feat/invoices"}',
            probes=(
                Turn("Please continue.", changed(_BRANCH, "requested_by: Milos")),
                Turn("Go on.", changed(_BRANCH, "requested_by: Emeka")),
            ),
        ),
        Side(
            change=Change.AFTER_TOOL_RESULT,
            cached=Turn("Go on.", _RAN),
            response="Not green yet: 412 tests pass and one fails. test_vat in tests/test_totals.py expects 19.00 and "
            "gets 18.99, which looks like a rounding error.",
            probes=(
                Turn("Go on.", changed(_RAN, "requested_by: Lauri")),
                Turn("Carry on with that.", changed(_RAN, "requested_by: Chiara", "agent: build helper 2")),
            ),
        ),
    ),
)

_SEARCH = """\
workspace: Payments support
user: Rosalind
tools.web_search: allowed
tool.result: status.paywell.example, updated 10:05, all systems operational"""
_NO_SEARCH = """\
workspace: Payments support
user: Rosalind
tools.web_search: switched off by administrator"""

STATUS_PAGE = Scenario(
    name="status-page",
    sides=(
        Side(
            change=Change.TOOLS_ALLOWED,
            cached=Turn("What does the status page of Paywell say?", _SEARCH),
            response="According to status.paywell.example, updated at 10:05, all systems are operational.",
            probes=(
                Turn(
                    "What does the status page of Paywell say?",
                    changed(_SEARCH, "user: Bartek", "theme: dark", "open_tabs: refunds, chargebacks, weekly report"),
                ),
                Turn("Look up Paywell's status page for me, will you?", changed(_SEARCH, "user: Oluwaseun")),
            ),
        ),
        Side(
            change=Change.TOOLS_FORBIDDEN,
            cached=Turn("What does the status page of Paywell say?", _NO_SEARCH),
            response="Web search is switched off in this workspace, so I cannot open the page. You can read it at "
            "status.paywell.example or ask an administrator to switch search on.",
            probes=(
                Turn(
                    "Paywell status page?", changed(_NO_SEARCH, "user: Marisol", "workspace: Payments support, night")
                ),
                Turn(
                    "Could you check what Paywell reports on its status page?",
                    changed(_NO_SEARCH, "user: Imre", "theme: light", "open_tabs: refunds"),
                ),
            ),
        ),
    ),
)

SCENARIOS = (PARCEL_TRACKING, LATE_ORDERS, RESTARTING_POD, BRANCH_STATUS, STATUS_PAGE)
