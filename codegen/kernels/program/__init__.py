"""What one kernel computes."""
