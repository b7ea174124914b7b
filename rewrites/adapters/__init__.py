"""One spelling per concept: older opsets to the newest, names, provenance."""
