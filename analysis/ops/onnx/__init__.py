"""Operators of ai.onnx, a file per family; an OpDef holds ALL facts of its operator."""
