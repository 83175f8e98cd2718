"""Long runs, judged on drift, variation and tails: `hakmem soak`."""
