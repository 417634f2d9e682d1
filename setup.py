"""Builds the compiled kernels, if there is a C compiler; without one, NumPy computes the same.

All else about the package is in pyproject.toml.
"""

import json
import os
import runpy
import sys
import sysconfig
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

# One wheel for all later versions of Python, by the limited API, which free-threaded builds do not have yet.
IS_LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
# The numbers that the kernels share with NumPy.
CONSTANTS = "src/apolar/_core/constants.py"
DEFINED = [(name, repr(value)) for name, value in runpy.run_path(CONSTANTS).items() if name.isupper()]
if sys.platform == "win32":
    FLAGS = ["/O2", "/std:c11"]
else:
    # Products and sums are fused where the processor can. No flag here changes what is computed otherwise.
    # What debuggers read is left out: Python asks for it, and it is two thirds of the file.
    FLAGS = ["-std=gnu11", "-O3", "-g0", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]


class Wheel(bdist_wheel):
    """A wheel for this version of Python and all later ones; for every system, if nothing was compiled."""

    def finalize_options(self) -> None:
        """Take the tag of the limited API."""
        if IS_LIMITED:
            self.py_limited_api = "cp311"
        super().finalize_options()

    def run(self) -> None:
        """Build the wheel."""
        # Before anything depends on whether there is an extension: where files go, and the tag.
        self.run_command("build_ext")
        if not all(map(os.path.exists, self.get_finalized_command("build_ext").get_outputs())):
            self.distribution.ext_modules = []
            self.py_limited_api, self.root_is_pure = False, True
        super().run()

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Write the metadata, and beside it what the package is made of and needs."""
        super().egg2dist(egginfo_path, distinfo_path)
        package, metadata = self.distribution, self.distribution.metadata
        needs = package.install_requires, package.extras_require
        described = metadata.get_name(), metadata.get_version(), metadata.license_expression
        bill = runpy.run_path("sbom.py")["bill_of_materials"](*described, *needs)
        folder = Path(distinfo_path, "sboms")
        folder.mkdir()
        (folder / "apolar.cdx.json").write_text(json.dumps(bill, indent=1), encoding="utf-8")


setup(
    ext_modules=[
        Extension(
            "apolar._kernels",
            sorted(glob("src/kernels/*.c")),
            depends=[CONSTANTS, *sorted(glob("src/kernels/*.h"))],
            extra_compile_args=FLAGS,
            define_macros=[*DEFINED, *([("Py_LIMITED_API", "0x030B0000")] if IS_LIMITED else [])],
            py_limited_api=IS_LIMITED,
            optional=True,
        )
    ],
    cmdclass={"bdist_wheel": Wheel},
)
