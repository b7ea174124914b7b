"""Laws that show what the prover can do and that no model asks for: TASO's, for one,
and TensorRight's. The engine doesn't apply them."""
