"""Modes through stages, by rules: `hakmem matrix`."""
