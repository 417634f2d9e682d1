"""What pytest leaves out where it cannot run."""

import importlib.util

# The kernels can be imported only where Triton is.
collect_ignore = [] if importlib.util.find_spec("triton") else ["src/apolar/_kernels.py"]
