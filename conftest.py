"""What pytest leaves out where it cannot run, and what tests rely on wherever they run."""

import importlib.util
import signal

# The kernels can be imported only where Triton is.
collect_ignore_glob = [] if importlib.util.find_spec("triton") else ["src/apolar/*/triton_*.py"]

# A suite in the background of a script ignores Ctrl-C, and so would the programs that tests interrupt: they
# inherit that, but not a handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
