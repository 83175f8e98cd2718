"""The documents held to the ledger: `hakmem audit`."""
