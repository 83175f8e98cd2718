"""Heap profiles, named and shown: `hakmem heap`."""
