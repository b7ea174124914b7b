"""Applications checked by values: no file here knows of laws, matching or proofs."""
