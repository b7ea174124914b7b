"""What launches a kernel, its twin, tuning."""
