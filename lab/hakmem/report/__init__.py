"""The report, one HTML file: `hakmem report`."""
