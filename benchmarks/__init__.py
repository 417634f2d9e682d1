"""Measurements, with those of tensorly and pyttb from the same run. `make bench` runs them all."""
