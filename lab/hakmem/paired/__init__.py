"""Paired comparisons, to verdicts: `hakmem ab`, `hakmem compare`, `hakmem baseline`."""
