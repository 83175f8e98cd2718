"""The targets against the ledger: `hakmem scorecard`."""
