"""The vendors that this program knows, set up for this computer."""

import os
from pathlib import Path

from ekiden.vendors.port import Vendor


def environment_of(home: Path) -> dict[str, str]:
    """This process's environment with the data folder named in it, and without the command line's own key."""
    return {
        **{name: value for name, value in os.environ.items() if name != "EKIDEN_KEY"},
        "EKIDEN_HOME": str(home),
    }


def vendors_here(home: Path) -> list[Vendor]:
    """All vendors, with `home` as Ekiden's data folder."""
    from ekiden.host.main import vendors_here as made

    return made(environment_of(home))
