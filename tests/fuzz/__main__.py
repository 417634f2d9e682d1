"""Hostile inputs by the thousand: `python -m fuzz --cases 10000`, with `tests` on the path.

Each case is a seed; what fails is printed with its seed, and `--target NAME --seed N` runs that case alone.
Every run has other seeds, of which it prints the first: `--first` repeats a run.
"""

import argparse
import collections
import secrets
import sys

from fuzz.outcomes import TARGETS, outcome, run_case


def main():
    """Run the cases that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="cases in all, shared out among the targets")
    parser.add_argument("--first", type=int, default=secrets.randbelow(2**40), help="the first seed")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="only these")
    parser.add_argument("--seed", type=int, help="only this seed, with what it says")
    options = parser.parse_args()
    targets = options.target or list(TARGETS)
    if options.seed is not None:
        for target in targets:
            print(target, run_case(target, options.seed))
        return 0
    n_each = -(-options.cases // len(targets))
    failures = collections.Counter()
    print(f"first seed {options.first}", flush=True)
    for target in targets:
        slowest = 0.0
        for seed in range(options.first, options.first + n_each):
            problem, seconds = outcome(target, seed)
            slowest = max(slowest, seconds)
            if problem is not None:
                failures[target] += 1
                print(f"--- {target}, seed {seed}\n{problem}", flush=True)
        print(f"{target}: {n_each} cases, {failures[target]} failed, the slowest {slowest:.1f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
