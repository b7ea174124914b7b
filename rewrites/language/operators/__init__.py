"""The operators that laws speak of, by family."""
