"""Processes that run on hakmem now: `hakmem top`, `hakmem export`."""
