"""Which commit changed a figure: `hakmem bisect`."""
