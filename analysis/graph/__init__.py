"""What can be told of an onnx_ir graph without shapes: traversal, a weightless copy,
symbolic sizes.
"""
