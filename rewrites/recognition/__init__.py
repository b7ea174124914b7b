"""Parts of a graph recognised by what they compute, whatever their spelling.

A region is read as one scalar term (regions.py), brought to a normal form (algebra.py,
denotation.py), and replaced only where that is the normal form of what ONNX has an
operator for: numbers propose, algebra proves.
"""
