"""Proofs that the two sides of a law are equal, for every rank, shape and value.

The trusted base is this package and z3: smt and integer_terms (questions about
integers), scalars and tensors (what an expression denotes), and the prover itself:
questions, substitution, monomials, bijections, matching, quotients, normal_form, order,
splitting, equality. Nothing in those modules looks at a model.
"""
