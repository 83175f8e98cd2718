"""One process under an allocator: chosen, started, proven, measured, and where it comes from."""
