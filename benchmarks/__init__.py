"""Measured figures, beside tensorly and pyttb in the same run. `make bench` runs them all."""
