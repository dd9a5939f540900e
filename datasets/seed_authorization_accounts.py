"""Seed scenarios on authorization: the same words from another user, tenant, key or role."""

from cachemend.datasets.seed_kinds import Change
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

_NADIA = """\
bank: Fjordbank
session.user: nadia.o
session.accounts: current 1182.40
session.device: phone
today: 2024-04-03"""
_EMIL = changed(_NADIA, "session.user: emil.r", "session.accounts: current 96.15")

BALANCE = Scenario(
    name="account-balance",
    sides=(
        Side(
            change=Change.OTHER_PRINCIPAL,
            cached=Turn("How much money is in my current account?", _NADIA),
            response="Your current account holds 1,182.40 euros.",
            probes=(
                Turn(
                    "How much money is in my current account?",
                    changed(
                        _NADIA,
                        "session.device: tablet",
                        "session.started: 21:14",
                        "last_page: travel insurance",
                        "notice: new card design from June",
                    ),
                ),
                Turn(
                    "What is the balance of my current account right now?",
                    changed(_NADIA, "session.device: laptop", "session.started: 08:51"),
                ),
            ),
        ),
        Side(
            change=Change.OTHER_PRINCIPAL,
            cached=Turn("How much money is in my current account?", _EMIL),
            response="There are 96.15 euros in your current account.",
            probes=(
                Turn("How much money is in my current account?", _EMIL),
                Turn(
                    "current account balance",
                    changed(
                        _EMIL,
                        "session.device: smart watch",
                        "session.started: 06:58",
                        "last_page: none",
                        "notice: lunch break of the help line 12:00 to 13:00",
                    ),
                ),
            ),
        ),
    ),
)

_TENANTS = """\
product: Mailwright
plan: business
dashboard.theme: light
month: 2024-03"""
_ALDER = changed(_TENANTS, "tenant: alder-logistics", "usage.sent: 48210", "usage.included: 50000")
_QUILL = changed(_TENANTS, "tenant: quill-press", "usage.sent: 51977", "usage.included: 50000")
_SOLEIL = changed(_TENANTS, "tenant: soleil-cafe", "usage.sent: 1203", "usage.included: 50000")

TENANT_USAGE = Scenario(
    name="tenant-usage",
    sides=(
        Side(
            change=Change.OTHER_PRINCIPAL,
            cached=Turn("Are we still within our monthly mail quota?", _ALDER),
            response="Yes, but only just: you have sent 48,210 of 50,000 messages in March.",
            probes=(Turn("Do we have any mails of this month's quota left?", _ALDER),),
        ),
        Side(
            change=Change.OTHER_PRINCIPAL,
            cached=Turn("Are we still within our monthly mail quota?", _QUILL),
            response="No. You are 1,977 messages over the 50,000 included in March, and the extra ones are billed.",
            probes=(Turn("Are we still within our monthly mail quota?", changed(_QUILL, "dashboard.theme: dark")),),
        ),
        Side(
            change=Change.OTHER_PRINCIPAL,
            cached=Turn("Are we still within our monthly mail quota?", _SOLEIL),
            response="Easily: 1,203 of 50,000 messages have gone out in March.",
            probes=(Turn("Mail quota ok?", changed(_SOLEIL, "dashboard.theme: contrast")),),
        ),
    ),
)

_KEY_DEPLOY = """\
console: object storage
region: eu-north
key.id: ak-3391-deploy
key.scopes: objects.read, objects.write, objects.delete
bucket: press-photos"""
_KEY_REPORT = changed(_KEY_DEPLOY, "key.id: ak-7204-report", "key.scopes: objects.read")

KEY_SCOPES = Scenario(
    name="key-scopes",
    sides=(
        Side(
            change=Change.OTHER_PRINCIPAL,
            cached=Turn("Can I delete old photos from this bucket with my key?", _KEY_DEPLOY),
            response="Yes. Key ak-3391-deploy has the scope objects.delete, so it may remove objects from "
            "press-photos.",
            probes=(
                Turn(
                    "Does my key allow removing old photos from the bucket?",
                    changed(_KEY_DEPLOY, "console: object storage, dark theme", "region: eu-west"),
                ),
                Turn("Can I delete old photos from this bucket with my key?", changed(_KEY_DEPLOY, "region: eu-west")),
            ),
        ),
        Side(
            change=Change.OTHER_PRINCIPAL,
            cached=Turn("Can I delete old photos from this bucket with my key?", _KEY_REPORT),
            response="No, ak-7204-report can only read. To delete objects you need a key with the scope "
            "objects.delete.",
            probes=(
                Turn("Can I delete old photos from this bucket with my key?", _KEY_REPORT),
                Turn("May my key delete photos here?", changed(_KEY_REPORT, "region: eu-west")),
            ),
        ),
    ),
)

_PAYROLL = """\
system: people records
employee: Ottilie Brandt, band 6, 61,200 a year
reader.name: J. Marchetti
reader.role: payroll officer
form: mortgage certificate"""
_LEAD = changed(_PAYROLL, "reader.role: team lead")

SALARY = Scenario(
    name="salary-by-role",
    sides=(
        Side(
            change=Change.CHANGED_ROLE,
            cached=Turn("What does Ottilie Brandt earn?", _PAYROLL),
            response="Ottilie Brandt is in band 6 and earns 61,200 euros a year before tax.",
            probes=(
                Turn(
                    "What is Ottilie Brandt's yearly salary?",
                    changed(
                        _PAYROLL,
                        "form: visa application",
                        "reader.name: P. Lindgren",
                        "desk: Gothenburg",
                        "queue: 14 open requests",
                    ),
                ),
                Turn("What does Ottilie Brandt earn?", _PAYROLL),
            ),
        ),
        Side(
            change=Change.CHANGED_ROLE,
            cached=Turn("What does Ottilie Brandt earn?", _LEAD),
            response="Team leads see the band of a colleague, not the amount: Ottilie Brandt is in band 6. Payroll can "
            "answer further questions.",
            probes=(
                Turn("Could you tell me how much Ottilie Brandt is paid?", changed(_LEAD, "form: landlord letter")),
                Turn(
                    "What does Ottilie Brandt earn?",
                    changed(_LEAD, "form: none", "reader.name: H. Okafor", "desk: Uppsala", "queue: 3 open requests"),
                ),
            ),
        ),
    ),
)

_CONTRACTOR = """\
wiki: Orrery
space: Turbine design
user: d.petrakis, contractor
access.turbine_design: until 2024-06-30
client: browser
today: 2024-06-12"""
_ENDED = changed(_CONTRACTOR, "access.turbine_design: ended 2024-06-30", "today: 2024-07-02")

CONTRACTOR = Scenario(
    name="contractor-wiki-access",
    sides=(
        Side(
            change=Change.ACCESS_GRANTED,
            cached=Turn("What clearance do the blades of the T4 need?", _CONTRACTOR),
            response="The page T4 rotor gives a tip clearance of 0.45 mm when cold and 0.30 mm at full load.",
            probes=(
                Turn(
                    "What clearance do the blades of the T4 need?",
                    changed(
                        _CONTRACTOR,
                        "client: tablet app",
                        "client.version: 5.2",
                        "recent_pages: holiday calendar, canteen, travel expenses",
                    ),
                ),
                Turn("T4 blade clearance?", changed(_CONTRACTOR, "today: 2024-06-21")),
            ),
        ),
        Side(
            change=Change.ACCESS_REVOKED,
            cached=Turn("What clearance do the blades of the T4 need?", _ENDED),
            response="Your access to the space Turbine design ended on 30 June 2024, so I cannot quote from it. Your "
            "contact at the company can ask for an extension.",
            probes=(
                Turn(
                    "What clearance do the blades of the T4 need?",
                    changed(_ENDED, "today: 2024-07-05", "client.version: 5.1", "recent_pages: canteen, car park"),
                ),
                Turn(
                    "How far must the T4 blades stay away from the casing?",
                    changed(_ENDED, "client: phone app", "today: 2024-07-03"),
                ),
            ),
        ),
    ),
)

SCENARIOS = (BALANCE, TENANT_USAGE, KEY_SCOPES, SALARY, CONTRACTOR)
