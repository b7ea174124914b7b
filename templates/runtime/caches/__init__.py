"""caches.py of a decoder's package, by where its network leaves room in them."""
