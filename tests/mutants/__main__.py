"""Mutation testing: `python -m mutants`, with `tests` on the path, from the root of the repository.

One operation of the source is changed at a time, in a copy, and the tests of that file run. A mutant that
they pass with survives: either no test is about that line, or the change makes no difference. A seed says
which operations are changed: the same for the same source.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutants.mutations import mutations

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "mutants"
# Files, and the tests that are about them; those that are likely to notice first.
GROUPS = {
    "kernels": (
        "src/kernels/*.[ch]",
        "tests/_core/test_compiled.py tests/mixture/test_steps.py tests/em/test_compiled.py "
        "tests/em/test_runs.py tests/em/test_left_out.py tests/search/test_comparisons.py "
        "tests/search/test_hierarchical.py tests/em/test_kernels.py tests/em/test_rounding.py "
        "tests/mixture tests/search/test_starts.py tests/_core/test_kernel_arguments.py",
    ),
    "M-steps": (
        "src/apolar/mixture/[fps][!y]*.py",
        "tests/mixture tests/em/test_laws.py tests/test_laws.py tests/em/test_noise.py tests/em/test_runs.py "
        "tests/search/test_starts.py tests/estimator/test_evidence.py tests/estimator/test_noise.py "
        "tests/estimator/test_loo.py tests/estimator/test_files.py tests/reports/test_analysis.py",
    ),
    "rows left out": (
        "src/apolar/em/left_out.py",
        "tests/em/test_left_out.py tests/estimator/test_loo.py tests/mixture/test_factors.py "
        "tests/estimator/test_student_mixture.py",
    ),
    "certificates": ("src/apolar/decomposition/proofs/*.py", "tests/decomposition/proofs"),
}
# The checks of arguments have tests of their own kind; the others are for one kind of processor each.
LEFT_OUT = ("module.c", "kernels.h", "avx2.c", "avx512.c", "baseline.c")
# A test that hangs has noticed: times the seconds of the processor that all tests take, and a few more. One
# that waits without computing is ended after this many times as long.
PATIENCE, LEAST_SECONDS, IDLE = 3, 30, 20


def build(folder):
    """Compile what has changed in the kernels of a copy of the sources; return whether that went well."""
    constants = (ROOT / "src/apolar/_core/constants.py").read_text()
    defined = [f"-D{line.replace(' = ', '=')}" for line in constants.splitlines() if line[:1].isupper()]
    flags = ["-fPIC", "-std=gnu11", "-O1", "-ffp-contract=fast", "-DPy_LIMITED_API=0x030B0000", *defined]
    compiler = [os.environ.get("CC", "cc"), *flags, f"-I{sysconfig.get_path('include')}"]
    objects = folder / "objects"
    objects.mkdir(exist_ok=True)
    headers = max(header.stat().st_mtime_ns for header in (folder / "kernels").glob("*.h"))

    def compile_one(source):
        target = objects / f"{source.stem}.o"
        if target.exists() and target.stat().st_mtime_ns > max(headers, source.stat().st_mtime_ns):
            return True
        target.unlink(missing_ok=True)
        command = [*compiler, "-c", str(source), "-o", str(target)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        if not all(pool.map(compile_one, sorted((folder / "kernels").glob("*.c")))):
            return False
    out = folder / "apolar" / "_kernels.abi3.so"
    link = [*compiler, "-shared", *map(str, sorted(objects.glob("*.o"))), "-o", str(out), "-lm"]
    return subprocess.run(link, capture_output=True, check=False).returncode == 0


def passes(folder, tests, seconds):
    """Return whether the tests pass with a copy of the sources, and the seconds of the processor they took.

    Tests that take longer than they may do not pass.
    """
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
    options = [*["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m"], "not slow", *tests.split()]
    before = os.times()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds))),
    )
    try:
        passed = process.wait(timeout=IDLE * seconds) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        passed = process.wait() == 0
    after = os.times()
    return passed, after.children_user + after.children_system - before.children_user - before.children_system


def copy_sources(folder):
    """Copy the package and the sources of its kernels."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(
        ROOT / "src/apolar", folder / "apolar", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    shutil.copytree(ROOT / "src/kernels", folder / "kernels")
    if not build(folder):
        sys.exit("The kernels cannot be compiled: mutants of them need a C compiler.")


def draw(pattern, number, seed):
    """Return paths and mutations of some files, drawn without replacement."""
    every = [
        (path.relative_to(ROOT / "src"), mutation)
        for path in sorted(ROOT.glob(pattern))
        if path.name not in LEFT_OUT
        for mutation in mutations(path.name, path.read_text())
    ]
    return random.Random(seed).sample(every, min(number, len(every)))


def survives(folder, path, mutation, tests, seconds):
    """Return whether the tests pass with a mutation, or None if it cannot be compiled."""
    source = (ROOT / "src" / path).read_text()
    (folder / path).write_text(mutation.apply(source))
    try:
        # The next mutant of a kernel is built without this one.
        is_built = path.parts[0] != "kernels" or build(folder)
        return passes(folder, tests, seconds)[0] if is_built else None
    finally:
        (folder / path).write_text(source)


def main():
    """Run the mutants that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--mutants", type=int, default=100, help="mutants in all, shared out among the groups"
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="no mutant is begun later")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--group", choices=sorted(GROUPS), action="append", help="only these")
    options = parser.parse_args()
    groups = options.group or list(GROUPS)
    copy_sources(BUILT)
    end, score = time.monotonic() + 60 * options.minutes, []
    for name in groups:
        pattern, tests = GROUPS[name]
        passed, seconds = passes(BUILT, tests, 600)
        if not passed:
            sys.exit(f"The tests of the {name} fail without any mutation.")
        seconds = LEAST_SECONDS + PATIENCE * seconds
        n_killed = n_tried = 0
        for path, mutation in draw(pattern, -(-options.mutants // len(groups)), options.seed):
            if time.monotonic() > end:
                break
            survived = survives(BUILT, path, mutation, tests, seconds)
            n_tried += survived is not None
            n_killed += survived is False
            if survived:
                print(f"survived: {path}:{mutation.describe((ROOT / 'src' / path).read_text())}", flush=True)
        print(f"{name}: {n_killed} of {n_tried} mutants killed", flush=True)
        score.append((n_killed, n_tried))
        copy_sources(BUILT)
    n_killed, n_tried = map(sum, zip(*score, strict=True))
    print(f"in all: {n_killed} of {n_tried} mutants killed, seed {options.seed}")


if __name__ == "__main__":
    main()
