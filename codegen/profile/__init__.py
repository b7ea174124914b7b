"""What things take on this machine."""
