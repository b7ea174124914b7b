"""Symbolic sizes as Python arithmetic."""

from __future__ import annotations

import operator
from functools import reduce

import sympy

from ...analysis.errors import Unsupported
from ...analysis.spelling.expr import Expr, Name, spell


def dim_expr(dim: sympy.Expr | int, atom: object) -> Expr:
    """Python arithmetic for a symbolic size; `atom(dim)` gives known parts or None."""
    if isinstance(dim, int) or dim.is_Integer:
        return spell(int(dim))
    found = atom(dim)  # type: ignore[operator]
    if found is not None:
        assert isinstance(found, Expr)
        return found
    if isinstance(dim, sympy.Add) and (rest := _remainder(dim)) is not None:
        return dim_expr(rest[0], atom) % dim_expr(rest[1], atom)
    if isinstance(dim, sympy.Add):
        terms = sorted(
            dim.args, key=lambda a: (a.could_extract_minus_sign(), a.is_number, str(a))
        )
        total = dim_expr(terms[0], atom)
        for term in terms[1:]:
            if term.could_extract_minus_sign():
                total = total - dim_expr(-term, atom)
            else:
                total = total + dim_expr(term, atom)
        return total
    if isinstance(dim, sympy.Mul):
        numerator, denominator = dim.as_numer_denom()
        if denominator != 1:
            return dim_expr(numerator, atom) // dim_expr(denominator, atom)
        factors = sorted(dim.args, key=lambda a: (not a.is_number, str(a)))
        return reduce(operator.mul, (dim_expr(factor, atom) for factor in factors))
    if isinstance(dim, sympy.Pow) and dim.exp.is_Integer and dim.exp > 1:
        return dim_expr(dim.base ** (dim.exp - 1), atom) * dim_expr(dim.base, atom)
    if isinstance(dim, sympy.floor):
        return dim_expr(sympy.together(dim.args[0]), atom)
    if isinstance(dim, sympy.ceiling):
        return -dim_expr(sympy.floor(-sympy.together(dim.args[0])), atom)
    if isinstance(dim, (sympy.Max, sympy.Min)):
        name = "max" if isinstance(dim, sympy.Max) else "min"
        return Name(name)(*[dim_expr(arg, atom) for arg in sorted(dim.args, key=str)])
    if isinstance(dim, sympy.Mod):
        return dim_expr(dim.args[0], atom) % dim_expr(dim.args[1], atom)
    raise Unsupported(f"the size {dim} has no spelling in Python")


def _remainder(dim: sympy.Add) -> tuple[sympy.Expr, sympy.Expr] | None:
    """a and n of a - n * floor(a / n)."""
    for term in dim.args:
        factor, whole = term.as_coeff_Mul()
        a, n = dim - term, -factor
        if n > 0 and isinstance(whole, sympy.floor) and whole.args[0] == a / n:
            return a, n
    return None
