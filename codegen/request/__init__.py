"""What was asked for: CompileOptions, CompileRequest."""
