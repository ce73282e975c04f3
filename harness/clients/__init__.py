"""Client models: small accumulators that read as known kinds of consumers do, right or wrong. Pure.

They serve as mutants that the quirks must kill, for diagnosis ("your accumulator behaves like: keys-by-id"), and as
evidence of what a rule breaks. Each is a target: `harness check client:keys-by-id`. docs/clients.md lists them.

`table` has all of them; `diagnosis` and `evidence` need none of them, only what is known of them.
"""
