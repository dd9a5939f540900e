"""Seed scenarios on freshness: another version of the document, the library or the attached file."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_LEAVE = """\
assistant: people desk
site: Malmo
employment: full time
document: Leave policy"""
_LEAVE_3 = changed(
    _LEAVE, "document.version: 3", "document.text: 25 days a year; up to 5 unused days carry over to 31 March."
)
_LEAVE_4 = changed(
    _LEAVE, "document.version: 4", "document.text: 27 days a year; up to 5 unused days carry over to 30 June."
)
_LEAVE_5 = changed(_LEAVE, "document.version: 5", "document.text: 28 days a year; unused days no longer carry over.")

LEAVE_POLICY = Scenario(
    name="leave-policy-version",
    sides=(
        Side(
            change=Change.OLDER_DOCUMENT,
            cached=Turn("Can I take unused leave into next year?", _LEAVE_3),
            response="Up to five unused days carry over; you have to take them by 31 March.",
            probes=(Turn("Do my remaining days off survive New Year?", changed(_LEAVE_3, "site: Aarhus")),),
        ),
        Side(
            change=Change.NEWER_DOCUMENT,
            cached=Turn("Can I take unused leave into next year?", _LEAVE_4),
            response="Yes, up to five days. They lapse if you have not used them by the end of June.",
            probes=(Turn("Can I take unused leave into next year?", changed(_LEAVE_4, "site: Turku")),),
        ),
        Side(
            change=Change.NEWER_DOCUMENT,
            cached=Turn("Can I take unused leave into next year?", _LEAVE_5),
            response="No. Unused leave does not carry over, so plan all 28 days within the year.",
            probes=(Turn("Can I take unused leave into next year?", _LEAVE_5),),
        ),
    ),
)

_CLIENT_1 = """\
assistant: code completion
project.language: Python
project.dependencies: orbitclient==1.8.4
file: billing/export.py
docs: orbitclient 1.8, Client(url, timeout_ms=10000): time limit in milliseconds"""
_CLIENT_2 = """\
assistant: code completion
project.language: Python
project.dependencies: orbitclient==2.1.0
file: billing/export.py
docs: orbitclient 2.1, Client(url, limits=Limits(read=10.0)): time limits in seconds; timeout_ms was removed"""

CLIENT_TIMEOUT = Scenario(
    name="client-timeout",
    sides=(
        Side(
            change=Change.OLDER_DOCUMENT,
            cached=Turn("How do I give the orbitclient connection a timeout of five seconds?", _CLIENT_1),
            response="Pass it in milliseconds: client = Client(url, timeout_ms=5000)",
            probes=(
                Turn(
                    "How do I give the orbitclient connection a timeout of five seconds?",
                    changed(
                        _CLIENT_1,
                        "file: billing/import.py",
                        "editor: two panes",
                        "open_files: README.md, billing/export.py, pyproject.toml",
                    ),
                ),
                Turn(
                    "I want orbitclient to give up after 5 seconds. What do I write?",
                    changed(_CLIENT_1, "file: jobs/nightly.py", "project.language: Python 3.9"),
                ),
            ),
        ),
        Side(
            change=Change.NEWER_DOCUMENT,
            cached=Turn("How do I give the orbitclient connection a timeout of five seconds?", _CLIENT_2),
            response="Use a Limits object: client = Client(url, limits=Limits(read=5.0))",
            probes=(
                Turn("orbitclient timeout 5 s?", changed(_CLIENT_2, "file: tests/test_export.py")),
                Turn(
                    "How can I limit an orbitclient call to five seconds?", changed(_CLIENT_2, "file: jobs/hourly.py")
                ),
            ),
        ),
    ),
)

_PROTOCOL = """\
unit: endoscopy
reader: nursing assistant
document: Reprocessing protocol, revision D
document.text: Full immersion in the disinfectant for 12 minutes at 20 degrees.
terminal: washroom 2"""
_REVISED = changed(
    _PROTOCOL,
    "document: Reprocessing protocol, revision E",
    "document.text: Full immersion in the disinfectant for 20 minutes at 20 degrees.",
)

REPROCESSING = Scenario(
    name="reprocessing-protocol",
    sides=(
        Side(
            change=Change.OLDER_DOCUMENT,
            cached=Turn("How long does the scope stay in the disinfectant?", _PROTOCOL),
            response="Keep it fully immersed for 12 minutes at 20 degrees.",
            probes=(
                Turn("Soaking time for the scope?", changed(_PROTOCOL, "reader: trainee", "terminal: washroom 1")),
                Turn(
                    "How long does the scope stay in the disinfectant?",
                    changed(_PROTOCOL, "terminal: ward 7", "shift: night", "list: 5 scopes waiting"),
                ),
            ),
        ),
        Side(
            change=Change.NEWER_DOCUMENT,
            cached=Turn("How long does the scope stay in the disinfectant?", _REVISED),
            response="Full immersion, 20 minutes, at a temperature of 20 degrees.",
            probes=(
                Turn(
                    "How long does the scope stay in the disinfectant?",
                    changed(_REVISED, "terminal: ward 4", "shift: early", "list: 2 scopes waiting"),
                ),
                Turn(
                    "For what time do I have to leave the endoscope in the bath?",
                    changed(_REVISED, "reader: ward nurse", "unit: endoscopy, night"),
                ),
            ),
        ),
    ),
)

_PHOTO_A = """\
insurer: Veritas Motor
claim: 77-3021
uploaded_by: policyholder
attachment: car.jpg
attachment.sha256: 5be0c1f7a94d"""
_PHOTO_B = changed(_PHOTO_A, "attachment.sha256: e21793d0840b")

DAMAGE_PHOTO = Scenario(
    name="damage-photo",
    sides=(
        Side(
            change=Change.OTHER_ATTACHMENT,
            cached=Turn("Which parts of the car are damaged in the attached photo?", _PHOTO_A),
            response="The left headlight is broken and the front bumper is dented on the left.",
            probes=(
                Turn(
                    "Which parts of the car are damaged in the attached photo?",
                    changed(_PHOTO_A, "attachment: IMG_2210.jpg", "case_worker: Odette", "deadline: 2024-05-31"),
                ),
                Turn(
                    "What damage can you see on this picture?",
                    changed(_PHOTO_A, "attachment: front.jpg", "uploaded_by: expert"),
                ),
            ),
        ),
        Side(
            change=Change.OTHER_ATTACHMENT,
            cached=Turn("Which parts of the car are damaged in the attached photo?", _PHOTO_B),
            response="There is a long scratch across both doors on the passenger side. Nothing else looks damaged.",
            probes=(
                Turn("Damaged parts?", changed(_PHOTO_B, "uploaded_by: garage")),
                Turn("Which parts of the car are damaged in the attached photo?", _PHOTO_B),
            ),
        ),
    ),
)

SCENARIOS = (LEAVE_POLICY, CLIENT_TIMEOUT, REPROCESSING, DAMAGE_PHOTO)
