"""What does not depend on inputs, computed once."""
