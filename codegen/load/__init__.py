"""An untrusted file -> onnx_ir.Model, or one clear error."""
