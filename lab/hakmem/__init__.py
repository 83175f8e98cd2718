"""The laboratory of hakmem."""

__version__ = "0.1.0"
