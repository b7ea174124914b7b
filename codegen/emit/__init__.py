"""PackagePlan -> files: Jinja, black, safetensors, source map."""
