"""Seed scenarios on dialogue state: who is spoken to, in what form, and whether anything was asked at all."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_RULES = """\
assistant: people desk
office: Ghent
document: Remote work rules, section 2
document.text: Staff may work from home up to three days a week. Tuesday is an office day for everyone. Working \
from abroad needs written approval ten days ahead."""

REMOTE_WORK_FORMAT = Scenario(
    name="remote-work-format",
    sides=(
        Side(
            change=Change.CHANGED_FORMAT,
            cached=Turn("Summarise the remote work rules as a bullet list.", _RULES),
            response="- At most three days a week from home\n- Tuesday in the office\n- From abroad only with written "
            "approval, ten days ahead",
            probes=(Turn("Give me the remote work rules in bullet points, please.", _RULES),),
        ),
        Side(
            change=Change.CHANGED_FORMAT,
            cached=Turn("Summarise the remote work rules in one sentence.", _RULES),
            response="You may work from home up to three days a week except on Tuesdays, and from abroad only with "
            "written approval obtained ten days ahead.",
            probes=(Turn("Remote work rules in one sentence?", changed(_RULES, "office: Porto")),),
        ),
        Side(
            change=Change.CHANGED_FORMAT,
            cached=Turn(
                "Summarise the remote work rules as JSON with the keys days_per_week, office_day, abroad.", _RULES
            ),
            response='{"days_per_week": 3, "office_day": "Tuesday", "abroad": "written approval, 10 days ahead"}',
            probes=(
                Turn(
                    "I need the remote work rules as a JSON object (days_per_week, office_day, abroad).",
                    changed(_RULES, "office: Lyon"),
                ),
            ),
        ),
    ),
)

_LAB = """\
site: Norrby blood collection
language: en
appointment: 08:10, room 3
test: fasting glucose"""

FASTING_PERSONA = Scenario(
    name="fasting-persona",
    sides=(
        Side(
            change=Change.CHANGED_PERSONA,
            cached=Turn("Why is nothing to be eaten before the test?", changed(_LAB, "reader: child of eight")),
            response="When you eat, the sugar from your food goes into your blood. The doctor wants to see how much "
            "sugar is there when your tummy has been resting all night. So breakfast comes right after!",
            probes=(
                Turn(
                    "Why is nothing to be eaten before the test?",
                    changed(_LAB, "appointment: 09:30, room 1", "reader: child of eight"),
                ),
            ),
        ),
        Side(
            change=Change.CHANGED_PERSONA,
            cached=Turn("Why is nothing to be eaten before the test?", changed(_LAB, "reader: adult patient")),
            response="Food raises your blood sugar for several hours. Only a value taken after eight hours without "
            "food can be compared with the normal range. Water is fine.",
            probes=(Turn("Why do I have to come with an empty stomach?", changed(_LAB, "reader: adult patient")),),
        ),
        Side(
            change=Change.CHANGED_PERSONA,
            cached=Turn("Why is nothing to be eaten before the test?", changed(_LAB, "reader: laboratory trainee")),
            response="Postprandial glucose depends on meal size, absorption and insulin response. The reference "
            "interval for fasting plasma glucose assumes at least 8 h of caloric abstinence, so note the time of the "
            "last meal on the request form.",
            probes=(
                Turn(
                    "What is the reason for the fasting requirement of this test?",
                    changed(_LAB, "appointment: none", "reader: laboratory trainee"),
                ),
            ),
        ),
    ),
)

_CLINIC = """\
practice: Lindenhof Surgery
channel: text message
opening_hours: Monday to Thursday 8:00-18:00, Friday 8:00-13:00
emergency: call 112"""

EMPTY_TEXT_MESSAGE = Scenario(
    name="empty-text-message",
    sides=(
        Side(
            change=Change.EMPTY_REQUEST,
            cached=Turn("", _CLINIC),
            response="Your message reached us without any text. Do you need an appointment, a prescription or "
            "something else? In an emergency call 112.",
            probes=(Turn("", changed(_CLINIC, "channel: web form")), Turn("   ", _CLINIC)),
        ),
        Side(
            change=Change.NO_LONGER_EMPTY,
            cached=Turn("Until when are you open on Friday?", _CLINIC),
            response="On Fridays the surgery is open from 8:00 until 13:00.",
            probes=(
                Turn("Friday closing time?", changed(_CLINIC, "channel: chat")),
                Turn("Could you tell me how late I can come by on a Friday?", changed(_CLINIC, "channel: e-mail")),
            ),
        ),
    ),
)

_REVIEW = """\
tool: review assistant
repository: search-index
branch: fix/bisect
language: Java"""
_LINE = "int mid = (low + high) / 2;"

EMPTY_REVIEW = Scenario(
    name="empty-review",
    sides=(
        Side(
            change=Change.EMPTY_REQUEST,
            cached=Turn("", _REVIEW),
            response="I see neither a question nor any code. Paste the method or the diff you would like me to look "
            "at.",
            probes=(Turn("\n", _REVIEW), Turn("", changed(_REVIEW, "branch: main"))),
        ),
        Side(
            change=Change.NO_LONGER_EMPTY,
            cached=Turn(f"Can this line overflow?\n\n{_LINE}", _REVIEW),
            response="Yes: low + high can exceed Integer.MAX_VALUE and turn negative. Write low + (high - low) / 2 "
            "instead.",
            probes=(
                Turn(
                    f"{_LINE}\n\nIs there any risk of integer overflow here?",
                    changed(_REVIEW, "branch: fix/bisect-2", "repository: search-core"),
                ),
                Turn(f"Can this line overflow?\n\n{_LINE}", changed(_REVIEW, "branch: feature/ranges")),
            ),
        ),
    ),
)

SCENARIOS = (REMOTE_WORK_FORMAT, FASTING_PERSONA, EMPTY_TEXT_MESSAGE, EMPTY_REVIEW)
