"""The language of rules: terms, patterns, Rule, what a rule may ask."""
