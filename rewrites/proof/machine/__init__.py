"""Laws to the bit: floats and whole numbers as machines have them, decided by z3."""
