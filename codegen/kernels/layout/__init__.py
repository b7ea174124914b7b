"""Where elements lie."""
