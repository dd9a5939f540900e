"""Seed scenarios on refusals: a change that was refused and may be made now, or the other way round."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_CLOSING = """\
bank: Fjordbank
account: savings, balance 0.00
channel: app chat
identity_check: not done"""
_VERIFIED = changed(_CLOSING, "identity_check: passed 09:14")

CLOSE_ACCOUNT = Scenario(
    name="close-savings-account",
    sides=(
        Side(
            change=Change.WRITE_REFUSED,
            cached=Turn("Please close my savings account.", _CLOSING),
            response="I cannot close the account before your identity has been checked. Open Profile, Identity check "
            "and scan your passport or ID card.",
            probes=(
                Turn(
                    "I would like to get rid of my savings account.",
                    changed(_CLOSING, "channel: secure mail", "bank: Fjordbank Bergen"),
                ),
                Turn(
                    "Please close my savings account.",
                    changed(
                        _CLOSING,
                        "channel: web chat",
                        "app.version: 11.2",
                        "last_topic: exchange rates at the airport",
                        "waiting_time: 2 minutes",
                    ),
                ),
            ),
        ),
        Side(
            change=Change.WRITE_ALLOWED,
            cached=Turn("Please close my savings account.", _VERIFIED),
            response="I can do that: the balance is 0.00 and nothing is pending. Closing is final. Type CLOSE to "
            "confirm.",
            probes=(
                Turn("close savings account", changed(_VERIFIED, "channel: phone app")),
                Turn(
                    "Please close my savings account.",
                    changed(_VERIFIED, "identity_check: passed 13:40", "app.version: 11.3", "last_topic: new app icon"),
                ),
            ),
        ),
    ),
)

_FREEZE = """\
agent: release manager
service: ledger
migration: 0048_add_currency, reviewed by two engineers
change_freeze: on until Monday 06:00
requested_by: Anneke"""
_OPEN = changed(_FREEZE, "change_freeze: off")

MIGRATION = Scenario(
    name="production-migration",
    sides=(
        Side(
            change=Change.WRITE_REFUSED,
            cached=Turn("Run migration 0048 on production.", _FREEZE),
            response="Not now: production is frozen until Monday 06:00. I can put 0048 into the queue for the first "
            "slot after that.",
            probes=(
                Turn("Run migration 0048 on production.", _FREEZE),
                Turn(
                    "Can you apply 0048 to the production database?",
                    changed(
                        _FREEZE,
                        "requested_by: Mattias",
                        "ticket: LED-552",
                        "build: 2024.11.3, all checks green",
                        "chat: release room",
                    ),
                ),
            ),
        ),
        Side(
            change=Change.WRITE_ALLOWED,
            cached=Turn("Run migration 0048 on production.", _OPEN),
            response="0048_add_currency has two reviews and production takes changes. It locks ledger.entries for "
            "about 40 seconds. Shall I start?",
            probes=(
                Turn(
                    "Please execute migration 0048 against production.",
                    changed(_OPEN, "requested_by: Ulrik", "agent: release manager, second shift"),
                ),
                Turn(
                    "Run migration 0048 on production.",
                    changed(_OPEN, "requested_by: Zofia", "ticket: LED-560", "chat: direct message"),
                ),
            ),
        ),
    ),
)

_EXAM = """\
course: Statics 2
task: find the reaction forces of a beam of 6 m with 4 kN at 2 m from the left support
student: K-118"""

BEAM_EXERCISE = Scenario(
    name="beam-exercise",
    sides=(
        Side(
            change=Change.REFUSAL_NO_LONGER_DUE,
            cached=Turn("What is the solution to this task?", changed(_EXAM, "mode: practice")),
            response="Take moments about the left support: 6 B = 4 kN x 2, so B = 1.33 kN. The rest is carried on "
            "the left: A = 4 - 1.33 = 2.67 kN.",
            probes=(Turn("Please show me how this task is solved.", changed(_EXAM, "mode: practice")),),
        ),
        Side(
            change=Change.REFUSAL_DUE,
            cached=Turn("What is the solution to this task?", changed(_EXAM, "mode: graded exam, 52 minutes left")),
            response="This task is part of a graded exam that is still running, so I cannot solve it for you. I can "
            "explain how the exam interface works.",
            probes=(Turn("What is the solution to this task?", changed(_EXAM, "mode: graded exam, 37 minutes left")),),
        ),
        Side(
            change=Change.OTHER_GROUND,
            cached=Turn(
                "What is the solution to this task?", changed(_EXAM, "mode: graded exam, over, results on Friday")
            ),
            response="The exam is over, but solutions are shown only once the results are out on Friday.",
            probes=(
                Turn(
                    "Can I see the solution now?",
                    changed(_EXAM, "student: K-204", "mode: graded exam, over, results on Friday"),
                ),
            ),
        ),
    ),
)

_RECORDS = """\
archive: Sankt Olof Clinic
request_from: Halvorsen Insurance
record: discharge letter 2023-11-02
patient: P-60914"""

DISCHARGE_LETTER = Scenario(
    name="discharge-letter-consent",
    sides=(
        Side(
            change=Change.OTHER_GROUND,
            cached=Turn("May we send the discharge letter to the insurer?", changed(_RECORDS, "consent: none on file")),
            response="No. There is no consent of the patient on file. Send the consent form first.",
            probes=(
                Turn(
                    "May we send the discharge letter to the insurer?",
                    changed(
                        _RECORDS,
                        "request_from: Bergen Mutual",
                        "clerk: Sigrun",
                        "letter.pages: 3",
                        "opened: 10:22",
                        "consent: none on file",
                    ),
                ),
            ),
        ),
        Side(
            change=Change.REFUSAL_NO_LONGER_DUE,
            cached=Turn(
                "May we send the discharge letter to the insurer?",
                changed(_RECORDS, "consent: signed 2024-02-12, all insurers"),
            ),
            response="Yes, the patient has agreed to it in writing. Send the letter of 2 November 2023 only.",
            probes=(
                Turn(
                    "Is it all right to forward the discharge letter to the insurance company?",
                    changed(_RECORDS, "consent: signed 2024-02-12, all insurers"),
                ),
            ),
        ),
        Side(
            change=Change.REFUSAL_DUE,
            cached=Turn(
                "May we send the discharge letter to the insurer?", changed(_RECORDS, "consent: withdrawn 2024-03-01")
            ),
            response="No, the patient withdrew the consent on 1 March 2024. Tell the insurer that you cannot share "
            "the letter.",
            probes=(
                Turn(
                    "May we send the discharge letter to the insurer?",
                    changed(_RECORDS, "consent: withdrawn 2024-03-01"),
                ),
            ),
        ),
    ),
)

SCENARIOS = (CLOSE_ACCOUNT, MIGRATION, BEAM_EXERCISE, DISCHARGE_LETTER)
