"""Which operators run side by side: clusters, forks, lanes, a simulation."""
