"""What was compiled before."""
