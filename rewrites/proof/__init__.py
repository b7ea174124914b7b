"""Proofs that the two sides of a law are equal, for every rank, shape and value.

The trusted base is kernel/ and z3: smt and integer_terms (questions about integers),
scalars and tensors (what an expression denotes), and the prover itself: questions,
substitution, monomials, matching, polynomials, order_reasoning, equality. Nothing in
those modules looks at a model.
"""
