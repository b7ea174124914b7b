"""The text of each forward: names, inlining."""
