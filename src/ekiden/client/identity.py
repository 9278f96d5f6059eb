"""Who a program is to the other members: its member keys, in a file of its own for each team and principal.

`FOLDER/members/TEAM/PRINCIPAL/identity.json` (0600). It is made at the first need and never sent anywhere; its
public half goes into the team's directory. Whoever copies the file is this member: make another for another
computer.
"""

from pathlib import Path

import msgspec

from ekiden.client.own_files import read_own, write_own
from ekiden.crypto import keys
from ekiden.crypto.keys import KEY_BYTES, MemberKeys
from ekiden.kernel.errors import Invalid, Unavailable
from ekiden.kernel.ids import Prefix, checked_id

_FILE = "identity.json"


class _Kept(msgspec.Struct, frozen=True):
    sign_seed: str
    wrap_seed: str
    v: int = 1


def member_folder(folder: Path, team_id: str, principal_id: str) -> Path:
    """Where a member's files lie under the data folder. The ids come from a hub: they are looked at first.

    Raises:
        Invalid: if they are none.
    """
    team, principal = checked_id(Prefix.TEAM, team_id), checked_id(Prefix.PRINCIPAL, principal_id)
    return folder / "members" / team / principal


def load_identity(folder: Path) -> MemberKeys | None:
    """The keys in a member's folder, None if there are none yet.

    Raises:
        Unavailable: if the file is not one, or others may read it.
    """
    data = read_own(folder / _FILE)
    if data is None:
        return None
    try:
        kept = msgspec.json.decode(data, type=_Kept)
        return MemberKeys.from_seeds(keys.read(kept.sign_seed, KEY_BYTES), keys.read(kept.wrap_seed, KEY_BYTES))
    except (msgspec.DecodeError, Invalid):
        raise Unavailable(
            f"{folder / _FILE} does not hold member keys.",
            hint="Put it back from where it came, or move it away to become a new member key.",
        ) from None


def own_identity(folder: Path) -> MemberKeys:
    """The keys in a member's folder, made if there are none. Two programs that begin at once get the same ones."""
    held = load_identity(folder)
    if held is not None:
        return held
    made = MemberKeys.new()
    kept = _Kept(keys.spell(made.sign_seed), keys.spell(made.wrap_seed))
    if write_own(folder / _FILE, msgspec.json.encode(kept), keep=True):
        return made
    held = load_identity(folder)
    assert held is not None
    return held
