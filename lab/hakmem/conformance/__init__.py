"""Conformance: promises that every allocator is held to, ours first."""
