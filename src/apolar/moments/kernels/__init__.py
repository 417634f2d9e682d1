"""Kernels of the sums of powers of rows, for processors that have one."""
