"""Seed scenarios on semantic collision: the same sentence about another number, place or picture."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_LOANS = """\
bank: Sparhafen
product: car loan, 12,000.00, no interest
terms: 24, 36 or 48 equal instalments
advisor: Herr Ebner"""

INSTALMENT = Scenario(
    name="loan-instalment",
    sides=(
        Side(
            change=Change.CHANGED_NUMBER,
            cached=Turn("What is the monthly instalment over 24 months?", _LOANS),
            response="500.00 euros a month.",
            probes=(
                Turn("How much would I pay each month for 24 months?", _LOANS),
                Turn("What is the monthly instalment over 24 months?", changed(_LOANS, "advisor: Frau Sattler")),
            ),
        ),
        Side(
            change=Change.CHANGED_NUMBER,
            cached=Turn("What is the monthly instalment over 48 months?", _LOANS),
            response="It comes to 250.00 euros a month.",
            probes=(
                Turn("monthly rate, 48 months?", _LOANS),
                Turn("What is the monthly instalment over four years?", changed(_LOANS, "advisor: Herr Lanz")),
            ),
        ),
    ),
)

_MUSEUMS = """\
assistant: city guide
museum.railway: until 17:00, closed on Monday
museum.glass: until 18:30, open every day
museum.maritime: until 20:00, closed on Tuesday
visitor: two adults
weekday: Thursday"""

CLOSING_TIME = Scenario(
    name="museum-closing-time",
    sides=(
        Side(
            change=Change.CHANGED_SUBJECT,
            cached=Turn("When does the Railway Museum close today?", _MUSEUMS),
            response="It closes at 17:00.",
            probes=(
                Turn("Until what time can we visit the Railway Museum today?", _MUSEUMS),
                Turn("When does the Railway Museum close today?", changed(_MUSEUMS, "visitor: school class")),
            ),
        ),
        Side(
            change=Change.CHANGED_SUBJECT,
            cached=Turn("When does the Glass Museum close today?", _MUSEUMS),
            response="The doors close at 18:30.",
            probes=(
                Turn("Glass Museum, open until?", _MUSEUMS),
                Turn("When does the Glass Museum close today?", changed(_MUSEUMS, "weekday: Saturday")),
            ),
        ),
        Side(
            change=Change.CHANGED_SUBJECT,
            cached=Turn("When does the Maritime Museum close today?", _MUSEUMS),
            response="At 20:00, so there is time for an evening visit.",
            probes=(
                Turn("When does the Maritime Museum close today?", changed(_MUSEUMS, "visitor: one senior")),
                Turn("What is today's closing time of the Maritime Museum?", changed(_MUSEUMS, "weekday: Friday")),
            ),
        ),
    ),
)

_CHART_A = """\
assistant: slide reader
deck: Board meeting
attachment: chart.png
attachment.sha256: 90ac44e7b1d2
slide: 7"""
_CHART_B = changed(_CHART_A, "attachment.sha256: 17f3c85e6600")

BAR_CHART = Scenario(
    name="bar-chart",
    sides=(
        Side(
            change=Change.OTHER_ATTACHMENT,
            cached=Turn("Which country has the highest bar in this chart?", _CHART_A),
            response="Portugal, with about 38 percent.",
            probes=(
                Turn("Which country has the highest bar in this chart?", changed(_CHART_A, "slide: 9")),
                Turn("Which country leads in the attached chart?", _CHART_A),
            ),
        ),
        Side(
            change=Change.OTHER_ATTACHMENT,
            cached=Turn("Which country has the highest bar in this chart?", _CHART_B),
            response="That is Estonia at roughly 61 percent.",
            probes=(
                Turn("Highest bar?", _CHART_B),
                Turn(
                    "Which country has the highest bar in this chart?",
                    changed(_CHART_B, "attachment: figure-3.png"),
                ),
            ),
        ),
    ),
)

SCENARIOS = (INSTALMENT, CLOSING_TIME, BAR_CHART)
