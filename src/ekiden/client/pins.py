"""What a member has come to trust: the hub's key, other members' keys, how far directory and epochs were seen.

`pins.json` in the member's folder (0600). The hub's key and the first key of each principal are taken at first
contact; from then on a change is refused until a person says otherwise (`ekiden trust`). What is remembered of the
directory and of epochs keeps a hub from showing an older or another past.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ekiden.client.own_files import read_own, write_own
from ekiden.crypto import directory, invites, keys
from ekiden.crypto.directory import Directory, KeyNotTrusted, MemberKey, Trust
from ekiden.crypto.keys import KEY_BYTES, PublicKeys
from ekiden.kernel.errors import Conflict, Invalid, NotFound, Unavailable
from ekiden.kernel.ids import Prefix, checked_id

_FILE = "pins.json"


class HubKeyChanged(Conflict):
    """The hub signs with another key than the pinned one."""

    code = "hub_key_changed"


class EpochWentBack(Conflict):
    """A hub shows an older or another epoch than was seen before."""

    code = "epoch_went_back"


class ChannelChanged(Conflict):
    """A channel that was encrypted is said not to be, or another stands under its name."""

    code = "channel_changed"


class _KeptKey(msgspec.Struct, frozen=True, omit_defaults=True):
    principal: str
    sign: str
    wrap: str
    position: int
    name: str = ""
    label: str = ""
    added_at: str = ""
    ended_at: str = ""
    vouched_by: tuple[str, ...] = ()
    invite: str = ""
    proof: str = ""


class _Kept(msgspec.Struct, omit_defaults=True):
    hub_key: str = ""
    position: int = 0
    head: str = ""
    keys: dict[str, _KeptKey] = msgspec.field(default_factory=dict[str, _KeptKey])
    trust: dict[str, dict[str, Trust]] = msgspec.field(default_factory=dict[str, dict[str, Trust]])
    """By principal and member key id."""
    epochs: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict[str, tuple[int, str]])
    """By channel id: the newest epoch that was seen, and the digest of its statement."""
    channels: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Encrypted channels that were met: name to id. Neither ever changes."""
    invites: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """By invite id: the secret of invites that were made here."""


class Pins:
    """The pins of one member, read from its folder; `save` writes what has changed."""

    def __init__(self, folder: Path, team: str) -> None:
        self._path = folder / _FILE
        self._team = team
        data = read_own(self._path)
        try:
            self._kept = msgspec.json.decode(data, type=_Kept) if data is not None else _Kept()
        except msgspec.DecodeError:
            raise Unavailable(f"{self._path} cannot be read.", hint="Put it back from where it came.") from None
        self._changed = False
        self.directory = Directory(team, b"")
        if self._kept.hub_key:
            self._restore()

    def save(self) -> None:
        """Writes the file if anything has changed."""
        if self._changed:
            write_own(self._path, msgspec.json.encode(self._kept))
            self._changed = False

    # --- the hub

    @property
    def hub_key(self) -> str:
        """The pinned key of the hub, base64url; empty before first contact."""
        return self._kept.hub_key

    def meet_hub(self, shown: str) -> None:
        """Compares the hub's key with the pin, or pins it.

        Raises:
            HubKeyChanged: if it is another one.
            Invalid: if it is no key.
        """
        if not self._kept.hub_key:
            keys.read(shown, KEY_BYTES)
            self._kept.hub_key = shown
            self._changed = True
            self._restore()
        elif self._kept.hub_key != shown:
            raise HubKeyChanged(
                "The hub signs with another key than before.",
                hint="Either its data was replaced, or another hub answers under its name. Ask who runs it, and"
                " only then: ekiden trust --hub-key NEW",
                pinned=self._kept.hub_key,
                shown=shown,
            )

    def accept_hub(self, shown: str) -> None:
        """Pins another key of the hub on a person's word. What was known of its directory and epochs is read anew;
        whom the person trusts, and which channels are encrypted, stays."""
        keys.read(shown, KEY_BYTES)
        self._kept = msgspec.structs.replace(self._kept, hub_key=shown, position=0, head="", keys={}, epochs={})
        self._changed = True
        self._restore()

    # --- members

    def remember_directory(self) -> None:
        """Keeps what `directory` has read."""
        self._kept.position, self._kept.head = self.directory.position, self.directory.head
        self._kept.keys = {name: _kept_key(key) for name, key in self.directory.keys.items()}
        self._changed = True

    def judged(self, principal_id: str) -> dict[str, Trust]:
        """What to think of each key of a principal, by member key id. A first key is pinned; so is one that proves
        the secret of an invite that was made here."""
        pinned = dict(self._pinned(principal_id))
        for key in self.directory.of(principal_id):
            if key.public.member_key_id not in pinned and self._invited(key):
                pinned[key.public.member_key_id] = Trust.INVITED
        found = directory.judge(self.directory, principal_id, pinned)
        first = {name: trust for name, trust in found.items() if trust is Trust.FIRST}
        whole = {**pinned, **first}
        if whole != self._pinned(principal_id):
            self._kept.trust[principal_id] = whole
            self._changed = True
        return found

    def trusted(self, principal_id: str) -> list[MemberKey]:
        """The live keys of a principal that may be wrapped to.

        Raises:
            KeyNotTrusted: if it has live keys, and none of them is trusted.
        """
        judged = self.judged(principal_id)
        live = self.directory.of(principal_id)
        good = [key for key in live if judged[key.public.member_key_id].good]
        if live and not good:
            raise not_trusted(live[-1])
        return good

    def doubted(self, principal_id: str) -> list[MemberKey]:
        """The live keys of a principal that are not trusted."""
        judged = self.judged(principal_id)
        return [key for key in self.directory.of(principal_id) if not judged[key.public.member_key_id].good]

    def speaks_for(self, principal_id: str, member_key: str) -> MemberKey | None:
        """The key of that id if it is the principal's and trusted, also if it has ended since; else None."""
        key = self.directory.keys.get(member_key)
        if key is None or key.principal_id != principal_id:
            return None
        self.judged(principal_id)  # pins at first contact
        return (
            key
            if member_key in directory.believed(self.directory, principal_id, self._pinned(principal_id))
            else None
        )

    def accept(self, member_key: str, trust: Trust = Trust.COMPARED) -> MemberKey:
        """Trusts a key on a person's word.

        Raises:
            NotFound: if the directory has no such live key.
        """
        key = self.directory.keys.get(member_key)
        if key is None or not key.live:
            raise NotFound("The directory has no such live member key.")
        self.pin(key.principal_id, member_key, trust)
        return key

    def pin(self, principal_id: str, member_key: str, trust: Trust) -> None:
        """Trusts a key that may not be in the directory yet."""
        self._kept.trust.setdefault(principal_id, {})[member_key] = trust
        self._changed = True

    def _pinned(self, principal_id: str) -> Mapping[str, Trust]:
        return self._kept.trust.get(principal_id, {})

    # --- invites and epochs

    def remember_invite(self, invite_id: str, secret: str) -> None:
        """Keeps the secret of an invite that was made here, to know the guest by."""
        self._kept.invites[invite_id] = secret
        self._changed = True

    def see_epoch(self, channel_id: str, epoch: int, digest: str) -> None:
        """Notes the newest epoch that a hub shows.

        Raises:
            EpochWentBack: if a newer one, or another of the same number, was seen before.
        """
        seen, before = self._kept.epochs.get(channel_id, (0, ""))
        if epoch < seen or (epoch == seen and digest != before):
            raise EpochWentBack(
                f"The hub shows epoch {epoch} of the channel, but epoch {seen} was seen before.",
                hint="Its data may be an older copy. Nothing was sealed.",
                channel_id=channel_id,
            )
        if epoch > seen:
            self._kept.epochs[channel_id] = (epoch, digest)
            self._changed = True

    def see_channel(self, name: str, channel_id: str, *, encrypted: bool) -> None:
        """Notes an encrypted channel. A hub that shows it as a plain one wants to read what is said there.

        Raises:
            ChannelChanged: if it was encrypted, or had another id under this name.
        """
        pinned = self._kept.channels.get(name)
        if encrypted and pinned is None:
            self._kept.channels[name] = channel_id
            self._changed = True
        elif (encrypted and pinned != channel_id) or (
            not encrypted and (pinned is not None or channel_id in self._kept.channels.values())
        ):
            raise ChannelChanged(
                f"The hub shows another channel as {name} than the encrypted one that was met before.",
                hint="Nothing was sent. Ask who runs the hub.",
                channel_id=channel_id,
            )

    def _invited(self, key: MemberKey) -> bool:
        secret = self._kept.invites.get(key.invite, "") if key.invite else ""
        return bool(secret) and invites.proven(
            key.proof,
            secret,
            team=self._team,
            invite=key.invite,
            principal=key.principal_id,
            public=key.public,
        )

    def _restore(self) -> None:
        try:
            self.directory = Directory(
                self._team,
                keys.read(self._kept.hub_key, KEY_BYTES),
                self._kept.position,
                self._kept.head,
                _read_keys(self._kept.keys),
            )
        except Invalid:
            raise Unavailable(f"{self._path} cannot be read.", hint="Put it back from where it came.") from None


def pinned_hub_keys(home: Path, team: str) -> set[str]:
    """The keys of the hub of `team` that members under the data folder `home` have pinned; usually one.

    Raises:
        Invalid: if `team` is no id of a team.
    """
    members = (home / "members" / checked_id(Prefix.TEAM, team)).glob(f"*/{_FILE}")
    pinned = {Pins(path.parent, team).hub_key for path in members}
    return pinned - {""}


def not_trusted(key: MemberKey) -> KeyNotTrusted:
    """That a member has shown another key than the one that is pinned."""
    name = key.name or key.principal_id
    typed = shlex.quote(name)
    return KeyNotTrusted(
        f"{name} has a member key that is not trusted here, and no other: {key.public.fingerprint}.",
        hint=f"Compare it with {name} by voice or in person (`ekiden trust {typed}` shows a code for both sides),"
        f" then: ekiden trust {typed} --accept {key.public.member_key_id}",
        principal_id=key.principal_id,
        member_key=key.public.member_key_id,
        why="changed",
    )


def _kept_key(key: MemberKey) -> _KeptKey:
    return _KeptKey(
        key.principal_id,
        keys.spell(key.public.sign),
        keys.spell(key.public.wrap),
        key.position,
        key.name,
        key.label,
        key.added_at,
        key.ended_at,
        key.vouched_by,
        key.invite,
        key.proof,
    )


def _read_keys(kept: Mapping[str, _KeptKey]) -> dict[str, MemberKey]:
    return {
        name: MemberKey(
            key.principal,
            key.name,
            PublicKeys(keys.read(key.sign, KEY_BYTES), keys.read(key.wrap, KEY_BYTES)),
            key.label,
            key.added_at,
            key.position,
            key.invite,
            key.proof,
            key.ended_at,
            key.vouched_by,
        )
        for name, key in kept.items()
    }
