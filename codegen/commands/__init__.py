"""What the command line does besides compile."""
