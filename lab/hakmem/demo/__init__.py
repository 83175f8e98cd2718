"""hakmem at work, in two minutes: `hakmem demo`."""
