"""What an operator means, one file per family."""
