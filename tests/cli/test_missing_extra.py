"""Without the packages of `apolar[cli]`, the library works, and the script says what to install."""

import subprocess
import sys

import pytest

from apolar import __main__

WITHOUT = """
import sys
for name in ("click", "fastexcel", "polars", "rich"):
    sys.modules[name] = None
import apolar, numpy
apolar.GaussianMixture(1).fit(numpy.eye(3))
"""


def test_the_script_says_what_to_install(monkeypatch):
    found = __main__.find_spec
    monkeypatch.setattr(__main__, "find_spec", lambda name: None if name == "polars" else found(name))
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == "The command line needs polars: pip install 'apolar[cli]'"


@pytest.mark.filterwarnings("ignore")
def test_the_library_needs_none_of_them():
    subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT], check=True)
