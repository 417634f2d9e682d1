"""What is tried, and what a hostile input may lead to: a sound result, or an error in words."""

import signal
import time
import traceback
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np

# Modules and functions by what they try: each takes a generator, and says what it tried.
TARGETS = {
    "estimator": "estimator.run",
    "missing values": "estimator.run_incomplete",
    "families": "estimator.run_families",
    "long tails": "estimator.run_tails",
    "noise": "estimator.run_noise",
    "known": "known.run",
    "other models": "models.run",
    "sketches": "sketches.run",
    "files": "files.run",
    "command line": "command_line.run",
    "tensors": "tensors.run",
    "polynomials": "polynomials.run",
}
# Errors raised here were meant for the user: the library itself, and scikit-learn's validation of its input.
DELIBERATE = ("apolar", "sklearn/utils")
# What tensors and polynomials raise on purpose; each with a message.
REFUSALS = (ValueError, TypeError, MemoryError)
# Seconds that a case may take, of the processor: other programs may be running.
LONGEST = 20


class TooSlow(Exception):
    """Raised inside a case that takes too long."""


def _too_slow(*_):
    raise TooSlow


def run_case(target, seed):
    """Run one case, in which warnings are errors; return what it tried."""
    run = TARGETS[target]
    if isinstance(run, str):
        module, _, name = run.partition(".")
        run = getattr(import_module(f"fuzz.{module}"), name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return run(np.random.default_rng(seed))


def outcome(target, seed):
    """Run one case; return None if it is sound, else what is wrong, and the seconds it took."""
    started = time.process_time()
    signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    problem = None
    try:
        run_case(target, seed)
    except TooSlow:
        problem = f"more than {LONGEST} s"
    except Exception:
        problem = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return problem, time.process_time() - started


def refused_on_purpose(error):
    """Check that an error was raised by the library, in words, not by an array operation deep inside."""
    assert not isinstance(error, np.linalg.LinAlgError), f"linear algebra reached the user: {error}"
    source = Path(traceback.extract_tb(error.__traceback__)[-1].filename).as_posix()
    if not any(f"/{place}/" in source for place in DELIBERATE):
        raise AssertionError(f"an error from {source} reached the user: {error!r}") from error
    assert str(error).strip(), f"{type(error).__name__} without a word"
    assert len(str(error)) < 1000, "a message of more than 1000 characters"


def single_line(error):
    """Return a message, which must be there, short, and one line."""
    text = str(error)
    assert 0 < len(text) < 500, repr(error)[:1000]
    assert "\n" not in text, f"a message of several lines: {text}"
    return f"{type(error).__name__}: {text[:80]}"
