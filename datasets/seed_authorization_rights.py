"""Seed scenarios on authorization: what may be approved, shown and called."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_INVOICE = """\
system: purchase ledger
invoice: 2024-0817, Pfeiffer Metallbau, 7,340.00
invoice.status: matched with order
user: Lucinda
user.approval_limit: 5,000"""
_RAISED = changed(_INVOICE, "user.approval_limit: 10,000")

INVOICE_APPROVAL = Scenario(
    name="invoice-approval",
    sides=(
        Side(
            change=Change.WRITE_REFUSED,
            cached=Turn("Approve invoice 2024-0817.", _INVOICE),
            response="The invoice is 7,340.00 and your limit is 5,000, so you cannot approve it. Forward it to someone "
            "with a higher limit.",
            probes=(
                Turn(
                    "Approve invoice 2024-0817.",
                    changed(
                        _INVOICE,
                        "user: Ravi",
                        "inbox: 9 invoices waiting",
                        "screen: month-end view",
                        "note: cost centre 4410, new chairs for the workshop",
                    ),
                ),
                Turn(
                    "Please release the Pfeiffer invoice 2024-0817 for payment.",
                    changed(_INVOICE, "user: Henrike", "invoice.due: 2024-06-28"),
                ),
            ),
        ),
        Side(
            change=Change.WRITE_ALLOWED,
            cached=Turn("Approve invoice 2024-0817.", _RAISED),
            response="7,340.00 to Pfeiffer Metallbau is within your limit and matches the order. Press Approve to "
            "confirm.",
            probes=(
                Turn(
                    "I want to approve 2024-0817, the one from Pfeiffer.",
                    changed(_RAISED, "user: Soren", "invoice.received: by post"),
                ),
                Turn(
                    "Approve invoice 2024-0817.",
                    changed(_RAISED, "user: Maren", "inbox: 2 invoices waiting", "screen: supplier view"),
                ),
            ),
        ),
    ),
)

_TRANSCRIPT = """\
archive: call transcripts
call: 2024-02-19, 6 min, tariff change
caller: Giorgos Manolis, +30 210 555 0199
reader.team: complaints
export_rule: full text"""
_VENDOR = changed(_TRANSCRIPT, "export_rule: no names or numbers, the text leaves the company")

CALL_TRANSCRIPT = Scenario(
    name="call-transcript",
    sides=(
        Side(
            change=Change.REDACTION_LIFTED,
            cached=Turn("Who called on 19 February, and about what?", _TRANSCRIPT),
            response="Giorgos Manolis called from +30 210 555 0199 because his tariff had been changed without notice.",
            probes=(
                Turn(
                    "Who called on 19 February, and about what?",
                    changed(
                        _TRANSCRIPT,
                        "reader.team: back office",
                        "search: February, tariff",
                        "display: large print",
                        "hits: 31 calls",
                    ),
                ),
                Turn("Caller and reason, 19 February?", changed(_TRANSCRIPT, "reader.team: legal")),
            ),
        ),
        Side(
            change=Change.REDACTION_REQUIRED,
            cached=Turn("Who called on 19 February, and about what?", _VENDOR),
            response="A customer called because of a tariff change without notice. Name and number are withheld from "
            "this export.",
            probes=(
                Turn(
                    "What was the call of 19 February about and who made it?",
                    changed(_VENDOR, "archive: call transcripts, second copy", "reader.team: quality"),
                ),
                Turn(
                    "Who called on 19 February, and about what?",
                    changed(_VENDOR, "reader.team: training", "search: 19 February", "display: large print"),
                ),
            ),
        ),
    ),
)

_AGENT = """\
agent: site reliability
alert: disk usage of log-03 at 93 percent
runbook: delete rotated logs older than 7 days
on_duty: Beatriz"""
_FULL = changed(_AGENT, "agent.tools: shell.read, shell.write")
_READ_ONLY = changed(_AGENT, "agent.tools: shell.read")
_NO_TOOLS = changed(_AGENT, "agent.tools: none")

DISK_ALERT = Scenario(
    name="disk-alert",
    sides=(
        Side(
            change=Change.TOOLS_ALLOWED,
            cached=Turn("What is your next step for this alert?", _FULL),
            response='{"tool": "shell.write", "command": "find /var/log -name \'*.gz\' -mtime +7 -delete", "host": '
            '"log-03"}',
            probes=(Turn("What do you do now about the alert?", changed(_FULL, "on_duty: Kwame")),),
        ),
        Side(
            change=Change.TOOLS_FORBIDDEN,
            cached=Turn("What is your next step for this alert?", _READ_ONLY),
            response='{"tool": "shell.read", "command": "find /var/log -name \'*.gz\' -mtime +7 -printf \'%s %p\\n\'", '
            '"host": "log-03"}',
            probes=(Turn("What is your next step for this alert?", changed(_READ_ONLY, "on_duty: Kwame")),),
        ),
        Side(
            change=Change.TOOLS_FORBIDDEN,
            cached=Turn("What is your next step for this alert?", _NO_TOOLS),
            response="I have no tools in this session. Whoever is on duty should delete the rotated logs on log-03 "
            "that are older than seven days, as the runbook says.",
            probes=(Turn("Next step for the alert?", _NO_TOOLS),),
        ),
    ),
)

SCENARIOS = (INVOICE_APPROVAL, CALL_TRANSCRIPT, DISK_ALERT)
