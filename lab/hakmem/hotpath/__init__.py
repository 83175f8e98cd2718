"""What one operation costs, and where: `hakmem hotpath`."""
