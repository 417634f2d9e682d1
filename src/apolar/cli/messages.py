"""Messages of the library in the words of the command line: options in place of parameters."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from apolar.exceptions import ColumnError, ComponentError

# A name that is not part of a longer one or of a path, and not in quotes, where it is the user's.
_ALONE = r"(?<![\w'\"/.-]){}(?![\w'\"/-])"

# Parameters as they appear in messages of the library, and the options for them. The order matters.
_OPTIONS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"n_components=range\((\d+), (\d+)\)", lambda match: f"--components {match[1]}-{int(match[2]) - 1}"),
    (r"n_components = (\d+)", r"\1"),
    (r"n_components=(\d+)", r"--components \1"),
    ("n_components", "--components"),
    (r"covariance_type='(\w+)'", r"--covariance \1"),
    ("covariance_type", "--covariance"),
    (r"criterion='(\w+)'", r"--criterion \1"),
    (r"are in \.table", "are in selection.csv, which -o writes"),
    (r"field='(\w+)'", r"--field \1"),
    (r"constraint='(\w+)'", r"--constraint \1"),
    (r"order=(\d)", r"--order \1"),
    ("move=True", "--move"),
    ("noise=True", "--noise"),
    (r"noise=([\d.]+\d)", r"--noise=\1"),
    ("leave noise out", "leave --noise out"),
)

# Advice of the library that the command line has no option for, or says in another way.
_SENTENCES: tuple[tuple[str, str], ...] = (
    (
        r"Best performing initialization did not converge\. Try different init parameters, or increase "
        r"max_iter, tol, or check for degenerate data\. EM stopped at max_iter passes over the rows\.",
        "EM stopped before it had converged: try another --seed or fewer clusters, or leave out columns that "
        "repeat others.",
    ),
    (
        r"A noise component needs complete rows, and values of X are missing \(NaN\)\. Fit without noise, "
        r"leave those rows out, or fill them in first: apolar\.MixtureImputer does\.",
        "--noise needs complete rows, and values are missing: leave --noise out, or those rows with "
        "--drop-missing.",
    ),
    (
        r"Fit the mixture to these rows and their weights with a larger max_iter, a smaller tol, or another "
        r"start; if this message stays, the component is",
        "Try another --seed; if this message stays, the cluster is",
    ),
    (
        r"Pass the rows and the sample_weight of the fit; if they are those, fit with a larger max_iter or a "
        r"smaller tol\.",
        "EM may have stopped too early: try another --seed.",
    ),
    (r"apolar\.select\(X\) compares", "-k auto compares"),
    (r"Use the default prior in place of prior=None, ask", "Ask"),
    (r"Fit with the default prior, or ask", "Ask"),
    (r", or fit with the default prior", ""),
    (r", or give a larger reg_covar", ""),
    (r"(?<=; )(?=model\.standard_errors\(X\))", "in Python "),
    (r"(?=fit the rows with warm_start)", "in Python "),
    (r"is what the refinement keeps to: it needs refine=True", "needs the refinement: leave out --no-refine"),
    (r"got n_samples = (\d+)", r"there are \1"),
    (r"(?<=\w) of X\b(?!['\"])", " of the table"),
    (r"\band X has\b", "and the table has"),
    (r"Pass move=True for", "Use move=True for"),
    (r" Raise max_digits if the numbers are long\.", ""),
    (r"Raise max_digits, or the rank: ", "Raise the rank: "),
    (r"decompose (the form|it) again with another random_state", "try another --seed"),
)


def in_options(text: str) -> str:
    """Return a message of the library with the options of the command line in place of its parameters."""
    for said, instead in _SENTENCES:
        text = re.sub(said, instead, text)
    for parameter, option in _OPTIONS:
        text = re.sub(_ALONE.format(parameter), option, text)
    return text


def error_message(error: BaseException) -> str:
    """Return the message of an error in the words of the command line."""
    # The room of tables is not imported for this: that may be what failed. An error of its own has it loaded.
    tables = sys.modules.get("apolar.cli.tables")
    if tables is not None and isinstance(error, tables.TableError):
        return str(error)  # already in the words of the command line, with names of the user
    if isinstance(error, ComponentError):
        return in_options(f"Cluster {error.component + 1} {error.problem}")
    message = in_options(str(error)) or "There is not enough memory: take fewer rows or columns."
    if isinstance(error, ColumnError):
        message += " Columns are chosen with --columns."
    return message
