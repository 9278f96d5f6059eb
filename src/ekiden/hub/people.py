"""Who there is in a team, as the relay room asks it of the access room."""

import json
from collections.abc import Sequence

from ekiden.access import rights
from ekiden.access.names import canonical_name
from ekiden.kernel.limits import KINDS_REMEMBERED_MAX
from ekiden.log.port import Reading
from ekiden.relay.port import Known


class TeamPeople:
    """See `relay.port.People`. What a principal is called and what kind it is never changes, so it is
    remembered."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Known] = {}

    async def named(self, reading: Reading, name: str, now: str) -> Sequence[Known]:
        """Those with a valid key whose name is this one, or looks the same."""
        rows = await reading.rows(
            "hub.people_named", team_id=reading.team_id, canonical=canonical_name(name), now=now
        )
        return [Known(row["principal_id"], row["name"], row["kind"]) for row in rows]

    async def known(self, reading: Reading, principal_id: str) -> Known | None:
        """One of them, or None."""
        place = (reading.team_id, principal_id)
        known = self._known.get(place)
        if known is None:
            row = await reading.row("hub.principal", team_id=reading.team_id, principal_id=principal_id)
            if row is None:
                return None
            if len(self._known) >= KINDS_REMEMBERED_MAX:
                self._known.clear()
            known = self._known[place] = Known(principal_id, row["name"], row["kind"])
        return known

    async def may(self, reading: Reading, principal_id: str, verb: str, resource: str, now: str) -> bool:
        """Whether one of its valid keys allows `verb` on `resource`."""
        rows = await reading.rows(
            "hub.rights_of_principal", team_id=reading.team_id, principal_id=principal_id, now=now
        )
        return any(
            rights.allows(permissions, verb, resource) or rights.allows(permissions, "admin", resource)
            for permissions in (json.loads(row["permissions"]) for row in rows)
        )
