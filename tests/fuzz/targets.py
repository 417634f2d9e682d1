"""What is tried: one function a kind of input, which takes a generator and says what it tried."""

from fuzz import estimator, sketches

TARGETS = {
    "estimator": estimator.run,
    "sketches": sketches.run,
}
