"""Seed scenarios on dialogue state: what a follow-up means depends on what was said before."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_MONITOR = """\
store: Voltaro Electronics
channel: web chat
locale: en-GB
Customer: I am looking at the Halden 27 monitor for my home office.
Agent: Good choice. It is in stock and ships within two days."""
_DOCK = _MONITOR.replace("Halden 27 monitor", "Halden D9 docking station")

MONITOR_OR_DOCK = Scenario(
    name="monitor-or-dock",
    sides=(
        Side(
            change=Change.CHANGED_REFERENT,
            cached=Turn("Does it come with a USB-C cable in the box?", _MONITOR),
            response="Yes. There is a USB-C cable of 1.5 m in the box, next to the power cord. An HDMI cable is not "
            "included.",
            probes=(
                Turn(
                    "Will I find a USB-C cable in the box, or do I have to buy one?",
                    changed(_MONITOR, "locale: en-AU", "channel: e-mail"),
                ),
                Turn("USB-C cable included?", changed(_MONITOR, "channel: mobile app")),
            ),
        ),
        Side(
            change=Change.CHANGED_REFERENT,
            cached=Turn("Does it come with a USB-C cable in the box?", _DOCK),
            response="No. It ships with its power supply only; a certified USB-C cable is sold separately as item "
            "40-118.",
            probes=(
                Turn("Is a USB-C cable part of the package?", changed(_DOCK, "channel: phone transcript")),
                Turn(
                    "Does it come with a USB-C cable in the box?",
                    changed(_DOCK, "locale: en-IE", "basket: empty", "visit: third this week"),
                ),
            ),
        ),
    ),
)

_KNOWN = """\
shop: Brightleaf Garden
customer: C-20418
channel: chat
Agent: I can see one open order, BL-7730, two cedar planters.
Customer: Yes, that one.
Agent: It left our Utrecht warehouse this morning. The carrier expects to deliver on Thursday 16 May, 9:00 to 13:00."""
_NEW = """\
shop: Brightleaf Garden
customer: C-20418
channel: chat
conversation: new, no earlier messages"""

ORDER_YOU_MENTIONED = Scenario(
    name="order-you-mentioned",
    sides=(
        Side(
            change=Change.HISTORY_PRESENT,
            cached=Turn("When will the order you mentioned arrive?", _KNOWN),
            response="Your two cedar planters (BL-7730) should arrive on Thursday 16 May between 9:00 and 13:00.",
            probes=(
                Turn(
                    "So on which day can I expect the order you just mentioned?", changed(_KNOWN, "channel: telephone")
                ),
                Turn("When will the order you mentioned arrive?", changed(_KNOWN, "channel: mobile app")),
                Turn("and it arrives when?", changed(_KNOWN, "channel: SMS")),
            ),
        ),
        Side(
            change=Change.MISSING_HISTORY,
            cached=Turn("When will the order you mentioned arrive?", _NEW),
            response="I have no earlier message from this conversation, so I cannot tell which order you mean. Could "
            "you send me the order number or the e-mail address you ordered with?",
            probes=(
                Turn("When will the order you mentioned arrive?", _NEW),
                Turn(
                    "What is the delivery date of the order you told me about?",
                    changed(_NEW, "channel: web form", "customer: C-31177"),
                ),
                Turn(
                    "When does the order you were talking about get here?",
                    changed(_NEW, "channel: e-mail", "conversation: new, earlier messages deleted after 30 days"),
                ),
            ),
        ),
    ),
)

_HOTEL = """\
hotel: Casa do Arco, Porto
guest_status: not signed in
device: phone
hotel.cancellation: free until 48 hours before arrival, then one night is charged
hotel.breakfast: 7:00 to 10:30, 14 euros a person
hotel.station: Sao Bento, 600 m; leave by the main exit, follow Rua das Flores downhill"""

YES_TO_WHAT = Scenario(
    name="yes-to-what",
    sides=(
        Side(
            change=Change.CHANGED_REFERENT,
            cached=Turn("Yes, please.", changed(_HOTEL, "Agent: Would you like to hear the cancellation terms?")),
            response="You can cancel free of charge until 48 hours before arrival. After that, one night is charged.",
            probes=(
                Turn(
                    "Yes, please.",
                    changed(_HOTEL, "Agent: Would you like to hear the cancellation terms?", "device: laptop"),
                ),
            ),
        ),
        Side(
            change=Change.CHANGED_REFERENT,
            cached=Turn("Yes, please.", changed(_HOTEL, "Agent: Shall I tell you about breakfast?")),
            response="Breakfast is served from 7:00 to 10:30 and costs 14 euros a person.",
            probes=(Turn("Sure, go ahead.", changed(_HOTEL, "Agent: Shall I tell you about breakfast?")),),
        ),
        Side(
            change=Change.CHANGED_REFERENT,
            cached=Turn("Yes, that would help.", changed(_HOTEL, "Agent: Do you want directions from the station?")),
            response="From Sao Bento it is about 600 m: leave by the main exit and follow Rua das Flores downhill.",
            probes=(
                Turn(
                    "Yes, please.",
                    changed(_HOTEL, "Agent: Do you want directions from the station?", "guest_status: signed in"),
                ),
            ),
        ),
    ),
)

_TRAINS = """\
service: rail assistant
passengers: 1
seat: window
timetable.friday.lisbon: 07:02, 08:32, 10:02
timetable.saturday.lisbon: 08:02, 09:32
timetable.saturday.coimbra: 07:45, 08:02, 09:15, 09:32
Customer: I need a train from Porto to Lisbon on Friday morning."""

TRAIN_CORRECTION = Scenario(
    name="train-correction",
    sides=(
        Side(
            change=Change.CORRECTED_SLOT,
            cached=Turn("What are my options?", _TRAINS),
            response="You can leave Porto at 07:02, 08:32 or 10:02.",
            probes=(Turn("Which trains can I take?", changed(_TRAINS, "seat: aisle")),),
        ),
        Side(
            change=Change.CORRECTED_SLOT,
            cached=Turn("What are my options?", _TRAINS + "\nCustomer: Sorry, I meant Saturday."),
            response="There are two departures from Porto: 08:02 and 09:32.",
            probes=(Turn("What are my options?", _TRAINS + "\nCustomer: Wait, not Friday. Make that Saturday."),),
        ),
        Side(
            change=Change.CORRECTED_SLOT,
            cached=Turn(
                "What are my options?",
                _TRAINS + "\nCustomer: Sorry, I meant Saturday, and only as far as Coimbra.",
            ),
            response="There are four departures from Porto that morning: 07:45, 08:02, 09:15 and 09:32.",
            probes=(Turn("Options?", _TRAINS + "\nCustomer: Sorry, I meant Saturday, and only as far as Coimbra."),),
        ),
    ),
)

SCENARIOS = (MONITOR_OR_DOCK, ORDER_YOU_MENTIONED, YES_TO_WHAT, TRAIN_CORRECTION)
