"""What is tried: one function per kind of input, which takes a generator and says what it tried."""

from fuzz import command_line, estimator, files, polynomials, sketches, tensors

TARGETS = {
    "estimator": estimator.run,
    "missing values": estimator.run_incomplete,
    "families": estimator.run_families,
    "sketches": sketches.run,
    "files": files.run,
    "command line": command_line.run,
    "tensors": tensors.run,
    "polynomials": polynomials.run,
}
