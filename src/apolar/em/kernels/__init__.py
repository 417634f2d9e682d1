"""Kernels of the E-step, for processors that have one."""
