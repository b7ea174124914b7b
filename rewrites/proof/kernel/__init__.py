"""The trusted kernel: terms, SMT, normal forms."""
