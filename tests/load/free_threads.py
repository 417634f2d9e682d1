"""Fits in threads of a Python without the lock of the interpreter: the same digits, and no lock."""

import sys

from load import simultaneous_fits


def main():
    """Compare fits in threads with fits that are alone."""
    assert not sys._is_gil_enabled(), "importing apolar has turned the lock on"
    X = simultaneous_fits.rows()
    alone = [simultaneous_fits.digits(number, X) for number in range(simultaneous_fits.N_THREADS)]
    assert simultaneous_fits.in_threads(X) == alone
    assert not sys._is_gil_enabled(), "the lock was turned on"
    print("free threads: the same digits as alone")


if __name__ == "__main__":
    sys.exit(main())
