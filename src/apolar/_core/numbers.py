"""Numbers as people write them."""

from __future__ import annotations

import math

__all__ = ["figures", "with_error"]

# Figures of a number, and of a deviation or standard error beside it.
N_FIGURES, N_ERROR_FIGURES = 4, 2
# From these powers of ten on a number is written with an exponent.
MIN_POWER, MAX_POWER = -5, 7
# A number beside its error has more digits before it is written with an exponent: a time in seconds has ten.
MAX_DIGITS = 12


def figures(value: float, n_figures: int = N_FIGURES) -> str:
    """Return a number with a few significant figures; with an exponent only if it is huge or tiny.

    Digits before the point are all written: 10341, not 1.034e+04.

    >>> figures(10341.27), figures(0.246), figures(-12.3456), figures(2.5e-9)
    ('10341', '0.246', '-12.35', '2.5e-9')
    """
    if not math.isfinite(value):
        return str(float(value))
    if value == 0:
        return "0"
    power = _power(value, n_figures)
    if not MIN_POWER <= power < MAX_POWER:
        return _with_exponent(value, n_figures)
    n_decimals = max(n_figures - 1 - power, 0)
    text = f"{value:.{n_decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_error(value: float, error: float) -> str:
    """Return a number and its deviation or standard error, to the same decimal.

    The error has two significant figures, and the number ends where the error does. Digits before the point
    are all written, of the error rounded to its figures: 4325 ± 850.

    >>> with_error(4325.3, 846.2), with_error(0.24623, 0.10541), with_error(10341.2, 5.43)
    ('4325 ± 850', '0.25 ± 0.11', '10341.2 ± 5.4')
    """
    if not (math.isfinite(value) and math.isfinite(error)) or error == 0:
        return f"{figures(value)} ± {figures(error, N_ERROR_FIGURES)}"
    largest = max(abs(value), abs(error))
    power, error_power = _power(largest, N_FIGURES), _power(error, N_ERROR_FIGURES)
    if error_power < MIN_POWER or power > MAX_DIGITS or power - error_power > MAX_DIGITS:
        return f"{figures(value)} ± {figures(error, N_ERROR_FIGURES)}"
    n_decimals = max(N_ERROR_FIGURES - 1 - error_power, 0)
    rounded = round(error, N_ERROR_FIGURES - 1 - error_power)
    return f"{round(value, n_decimals) + 0.0:.{n_decimals}f} ± {rounded:.{n_decimals}f}"


def _power(value: float, n_figures: int) -> int:
    """Return the power of ten of the first figure, after rounding."""
    return int(f"{abs(value):.{n_figures - 1}e}".partition("e")[2])


def _with_exponent(value: float, n_figures: int) -> str:
    digits, _, power = f"{value:.{n_figures - 1}e}".partition("e")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits}e{int(power)}"
