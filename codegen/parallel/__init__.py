"""parallel.py: how a network runs on several devices."""
