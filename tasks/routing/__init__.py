"""Response routing: pairs get signals and verdicts, policies are selected and replayed, and the replays analysed."""
