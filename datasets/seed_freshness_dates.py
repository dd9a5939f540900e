"""Seed scenarios on freshness: the same words asked on another day."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_BRANCH = """\
bank: Sparhafen
branch: Marktplatz
branch.hours: Monday to Friday 9:00-16:00, closed on public holidays
public_holidays: 2024-05-20 Whit Monday
today: Friday 2024-05-17
time: 11:20"""
_WHIT_MONDAY = changed(_BRANCH, "today: Monday 2024-05-20")

BRANCH_HOURS = Scenario(
    name="branch-hours-today",
    sides=(
        Side(
            change=Change.EARLIER_TIME_WINDOW,
            cached=Turn("Is the Marktplatz branch open this afternoon?", _BRANCH),
            response="Yes, the branch on Marktplatz is open until 16:00 this afternoon.",
            probes=(
                Turn(
                    "Is the Marktplatz branch open this afternoon?",
                    changed(
                        _BRANCH,
                        "time: 12:45",
                        "channel: voice assistant",
                        "weather: rain from noon",
                        "parking: 14 spaces free",
                    ),
                ),
                Turn(
                    "Can I still go to the branch on Marktplatz after lunch today?",
                    changed(_BRANCH, "time: 10:40", "bank: Sparhafen eG"),
                ),
            ),
        ),
        Side(
            change=Change.LATER_TIME_WINDOW,
            cached=Turn("Is the Marktplatz branch open this afternoon?", _WHIT_MONDAY),
            response="No, the branch is closed all day because of Whit Monday. It opens again tomorrow at 9:00.",
            probes=(
                Turn("Is the Marktplatz branch open this afternoon?", _WHIT_MONDAY),
                Turn("Marktplatz branch open later?", changed(_WHIT_MONDAY, "time: 10:05")),
            ),
        ),
    ),
)

_SALES = """\
dashboard: Nordlys Outdoor
currency: EUR
revenue.2024Q1: 4.18 million
revenue.2024Q2: 4.61 million
viewer: regional lead
today: 2024-04-09"""
_JULY = changed(_SALES, "today: 2024-07-08")

LAST_QUARTER = Scenario(
    name="revenue-last-quarter",
    sides=(
        Side(
            change=Change.EARLIER_TIME_WINDOW,
            cached=Turn("What was our revenue last quarter?", _SALES),
            response="Revenue in the last quarter was 4.18 million euros.",
            probes=(
                Turn(
                    "How much did we turn over in the quarter that just ended?",
                    changed(_SALES, "viewer: country manager", "today: 2024-04-30"),
                ),
                Turn(
                    "What was our revenue last quarter?",
                    changed(_SALES, "today: 2024-05-22", "filter: all shops", "page: overview"),
                ),
            ),
        ),
        Side(
            change=Change.LATER_TIME_WINDOW,
            cached=Turn("What was our revenue last quarter?", _JULY),
            response="Last quarter we had a revenue of 4.61 million euros.",
            probes=(
                Turn("Revenue last quarter?", changed(_JULY, "viewer: board member")),
                Turn(
                    "What was our revenue last quarter?",
                    changed(_JULY, "today: 2024-09-02", "filter: all shops", "page: regions"),
                ),
            ),
        ),
    ),
)

_ROTA = """\
team: payments
rota: 2-8 June Ines Calder; 9-15 June Tomasz Rein; 16-22 June Priya Nandan
asked_in: incident room"""

ON_CALL = Scenario(
    name="on-call-this-week",
    sides=(
        Side(
            change=Change.EARLIER_TIME_WINDOW,
            cached=Turn("Who is on call for payments this week?", changed(_ROTA, "today: Monday 3 June")),
            response="Ines Calder has the pager this week.",
            probes=(Turn("Who is on call for payments this week?", changed(_ROTA, "today: Thursday 6 June")),),
        ),
        Side(
            change=Change.LATER_TIME_WINDOW,
            cached=Turn("Who is on call for payments this week?", changed(_ROTA, "today: Monday 10 June")),
            response="This week it is Tomasz Rein.",
            probes=(Turn("Whom do I page this week if payments go down?", changed(_ROTA, "today: Wednesday 12 June")),),
        ),
        Side(
            change=Change.LATER_TIME_WINDOW,
            cached=Turn("Who is on call for payments this week?", changed(_ROTA, "today: Tuesday 18 June")),
            response="Priya Nandan is on call until Saturday.",
            probes=(
                Turn(
                    "payments on-call, this week?",
                    changed(_ROTA, "asked_in: direct message", "today: Tuesday 18 June"),
                ),
            ),
        ),
    ),
)

_TARIFF = """\
operator: Stadtbahn Ulmtal
tariff.until_2024-12-31: day ticket zone A 8.60
tariff.from_2025-01-01: day ticket zone A 9.20
passenger: adult
today: 2024-12-10"""
_JANUARY = changed(_TARIFF, "today: 2025-01-14")

DAY_TICKET = Scenario(
    name="day-ticket-price",
    sides=(
        Side(
            change=Change.EARLIER_TIME_WINDOW,
            cached=Turn("How much is a day ticket for zone A today?", _TARIFF),
            response="A day ticket for zone A costs 8.60 euros.",
            probes=(
                Turn(
                    "What do I pay for a zone A day ticket?",
                    changed(_TARIFF, "today: 2024-12-12", "device: ticket machine 31"),
                ),
                Turn("How much is a day ticket for zone A today?", changed(_TARIFF, "today: 2024-12-19")),
            ),
        ),
        Side(
            change=Change.LATER_TIME_WINDOW,
            cached=Turn("How much is a day ticket for zone A today?", _JANUARY),
            response="It costs 9.20 euros for an adult.",
            probes=(
                Turn("price day ticket A", changed(_JANUARY, "today: 2025-01-21")),
                Turn("What does it cost to ride around zone A all day?", changed(_JANUARY, "today: 2025-01-30")),
            ),
        ),
    ),
)

SCENARIOS = (BRANCH_HOURS, LAST_QUARTER, ON_CALL, DAY_TICKET)
