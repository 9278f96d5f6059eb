"""The vendors that this program knows, set up for this computer."""

import os
from pathlib import Path

from ekiden.vendors.port import Environment, Vendor


def vendors_of(environment: Environment) -> list[Vendor]:
    """All vendors, for the HOME and data folder (`EKIDEN_HOME`) that `environment` names."""
    from ekiden.vendors.demo.vendor import demo_vendor

    return [demo_vendor(environment)]


def environment_of(home: Path) -> dict[str, str]:
    """This process's environment, with the data folder named in it."""
    return {**os.environ, "EKIDEN_HOME": str(home)}


def vendors_here(home: Path) -> list[Vendor]:
    """All vendors, with `home` as Ekiden's data folder."""
    return vendors_of(environment_of(home))
