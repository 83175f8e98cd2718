"""All benchmarks and all rivals in one table, quickly: `hakmem bench` and `hakmem demo`."""
