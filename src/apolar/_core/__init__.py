"""Foundations of the other packages: arrays and array libraries, validation, files, threads."""
