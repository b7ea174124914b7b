"""What Session runs on."""
