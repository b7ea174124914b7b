"""What is said of operators, as functions that name none."""
