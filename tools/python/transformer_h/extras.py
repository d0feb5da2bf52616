"""Packages that only some functions need. pip installs them with an extra of this package, such as transformer-h[numpy]."""

from __future__ import annotations

from typing import Any


def missing_package(what: str, package: str, extra: str) -> ImportError:
    """Returns the error of a function that lacks a package. Its message has the command that installs the package."""
    return ModuleNotFoundError(f"{what} needs {package}: pip install 'transformer-h[{extra}]'", name=package)


def import_numpy(what: str) -> Any:
    try:
        import numpy
    except ImportError as error:
        raise missing_package(what, "numpy", "numpy") from error
    return numpy
