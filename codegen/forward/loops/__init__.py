"""What comes round becomes a loop."""
