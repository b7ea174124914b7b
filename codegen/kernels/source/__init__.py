"""The text of a kernel, one file per form."""
