"""Seed scenarios on semantic collision: one small word turns a request around."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_MENU = """\
restaurant: Trattoria Zefiro
menu: bruschetta; pesto linguine (nuts); lentil soup; baklava (nuts); walnut gnocchi (nuts); panna cotta
table: 12
day: Wednesday"""

NUTS = Scenario(
    name="dishes-with-nuts",
    sides=(
        Side(
            change=Change.NEGATED_REQUEST,
            cached=Turn("Which of your dishes contain nuts?", _MENU),
            response="The pesto linguine, the walnut gnocchi and the baklava.",
            probes=(
                Turn("Which of your dishes have nuts in them?", _MENU),
                Turn("Which of your dishes contain nuts?", changed(_MENU, "table: 4")),
            ),
        ),
        Side(
            change=Change.NEGATED_REQUEST,
            cached=Turn("Which of your dishes contain no nuts?", _MENU),
            response="Bruschetta, lentil soup and panna cotta.",
            probes=(
                Turn("dishes without nuts?", _MENU),
                Turn("Which of your dishes don't contain nuts?", changed(_MENU, "day: Sunday")),
            ),
        ),
    ),
)

_REPO = """\
assistant: git helper
repository: atlas-maps
branch: feature/legend
history: 14 commits, last one not pushed"""

LAST_COMMIT = Scenario(
    name="undo-last-commit",
    sides=(
        Side(
            change=Change.NEGATED_REQUEST,
            cached=Turn("How do I undo the last commit and keep my changes?", _REPO),
            response="git reset --soft HEAD~1 takes the commit back; everything in it stays staged.",
            probes=(
                Turn("How can I take back my last commit but keep the work?", _REPO),
                Turn("How do I undo the last commit and keep my changes?", changed(_REPO, "branch: main")),
            ),
        ),
        Side(
            change=Change.NEGATED_REQUEST,
            cached=Turn("How do I undo the last commit and not keep my changes?", _REPO),
            response="git reset --hard HEAD~1 removes the commit together with its changes. Uncommitted work is lost "
            "too, so look at git status first.",
            probes=(
                Turn("How do I undo the last commit without keeping my changes?", changed(_REPO, "branch: fix/tiles")),
                Turn("undo last commit, throw changes away", _REPO),
            ),
        ),
    ),
)

_LEDGER = """\
assistant: shared flat ledger
flat: Rua do Sol 8
ledger: 2 May Lindqvist paid Hofer 140.00; 17 May Hofer paid Lindqvist 85.50
month: May"""

FLAT_LEDGER = Scenario(
    name="flat-ledger",
    sides=(
        Side(
            change=Change.SWAPPED_ROLES,
            cached=Turn("How much did Hofer pay to Lindqvist in May?", _LEDGER),
            response="85.50 euros, on 17 May.",
            probes=(
                Turn("What amount did Lindqvist receive from Hofer in May?", _LEDGER),
                Turn("How much did Hofer pay Lindqvist in May?", changed(_LEDGER, "flat: Rua do Sol 8, second floor")),
            ),
        ),
        Side(
            change=Change.SWAPPED_ROLES,
            cached=Turn("How much did Lindqvist pay to Hofer in May?", _LEDGER),
            response="140.00 euros; the payment was made on 2 May.",
            probes=(
                Turn("Payment from Lindqvist to Hofer in May?", _LEDGER),
                Turn("How much did Lindqvist pay to Hofer in May?", changed(_LEDGER, "assistant: flat book-keeper")),
            ),
        ),
    ),
)

_HEAD = (
    "Dear support team, thank you for your service, which we have used for many years. Please treat this message as "
    "confidential. It and any attachment are meant for the addressee only. If you have received it in error, delete "
    "it and tell the sender. Think of the environment before you print this e-mail. "
)
_TAIL = (
    " Kind regards, Procurement, Tannhof Dairy Ltd, registered in Salzburg, FN 318274 k. This e-mail was scanned for "
    "viruses on the way out."
)
_MAILBOX = """\
mailbox: vendor help
customer: Tannhof Dairy
contract: cooling units, 24 pieces, notice period three months, service interval twelve months
received_by: web form"""

LONG_FOOTER = Scenario(
    name="long-footer",
    sides=(
        Side(
            change=Change.BOILERPLATE,
            cached=Turn(f"{_HEAD}What is the notice period of our contract?{_TAIL}", _MAILBOX),
            response="The contract on the 24 cooling units can be ended with three months' notice.",
            probes=(
                Turn(f"{_HEAD}With how much notice can we end the contract?{_TAIL}", _MAILBOX),
                Turn(
                    f"{_HEAD}What is the notice period of our contract?{_TAIL}",
                    changed(_MAILBOX, "received_by: forwarded by sales"),
                ),
            ),
        ),
        Side(
            change=Change.BOILERPLATE,
            cached=Turn(f"{_HEAD}What is the service interval of our units?{_TAIL}", _MAILBOX),
            response="Your cooling units need a service every twelve months.",
            probes=(
                Turn(f"{_HEAD}How often do our units have to be serviced?", _MAILBOX),
                Turn(f"{_HEAD}How often are our units due for service?{_TAIL}", _MAILBOX),
            ),
        ),
    ),
)

SCENARIOS = (NUTS, LAST_COMMIT, FLAT_LEDGER, LONG_FOOTER)
