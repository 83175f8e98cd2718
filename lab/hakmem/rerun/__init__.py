"""A record measured again: `hakmem rerun`."""
