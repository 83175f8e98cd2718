"""Traces: what a program did with the allocator, recorded once and replayed under any of them."""
