"""The bill of materials of a wheel, in CycloneDX JSON: what the package is, and what it needs.

`setup.py` writes it into each wheel, at `*.dist-info/sboms/`. It holds neither times nor random numbers: the
same sources give the same file.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any


def bill_of_materials(
    name: str, version: str, license: str, required: Sequence[str], extras: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the bill of materials of a package.

    Parameters
    ----------
    name, version, license : str
        The license is an SPDX expression.
    required : sequence of str
        The requirements of every installation, as in `pyproject.toml`.
    extras : mapping of str to sequences of str
        Those of each extra.
    """
    package = f"pkg:pypi/{name}@{version}"
    of_extras = [(text, extra) for extra, texts in extras.items() for text in texts]
    components = [_component(text) for text in required]
    components += [_component(text, extra) for text, extra in of_extras]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": package,
                "name": name,
                "version": version,
                "purl": package,
                "licenses": [{"expression": license}],
            }
        },
        "components": components,
        "dependencies": [{"ref": package, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _component(requirement: str, extra: str | None = None) -> dict[str, Any]:
    """Return a package that is needed, of which the installer chooses the version."""
    found = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*(.*)", requirement)
    assert found is not None, requirement
    name, versions = found.groups()
    purl = f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}"
    properties = {"versions": versions} | ({} if extra is None else {"extra": extra})
    return {
        "type": "library",
        "bom-ref": purl if extra is None else f"{purl}#{extra}",
        "name": name,
        "purl": purl,
        "scope": "required" if extra is None else "optional",
        "properties": [{"name": f"apolar:{key}", "value": value} for key, value in properties.items()],
    }
