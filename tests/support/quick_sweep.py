"""The sweep the tests of the flows run: eight cases of one short length, two allocators at one budget."""

QUICK = (
    *("--set", "cases=embedded-dev", "--set", "lengths=280", "--set", "allocators=sur,random-units"),
    *("--set", "budgets=10", "--set", "workers=1"),
)
N_CASES, N_ARMS = 8, 6
