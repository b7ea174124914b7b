"""Quantize/Dequantize, integer products, layers of QDQ graphs."""
