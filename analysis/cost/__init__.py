"""Operations, bytes, peak memory, devices."""
