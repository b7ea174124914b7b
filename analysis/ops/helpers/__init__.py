"""Real Python that is copied into emitted modules."""
