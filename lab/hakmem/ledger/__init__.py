"""The ledger: what was measured, chained by hashes and only ever added to."""
