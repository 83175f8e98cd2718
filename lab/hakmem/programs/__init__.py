"""Real programs: what they are, what they work on, and one run of each measured."""

from hakmem.programs.catalogue import PROGRAMS, Program, find
from hakmem.programs.ready import Ready, digest, prepare

__all__ = ["PROGRAMS", "Program", "Ready", "digest", "find", "prepare"]
