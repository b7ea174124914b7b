"""What an operator means, one file per family (denote_* and meaning_* in one)."""
