"""The ten sweeps of an economy, one module each, and what they report."""
