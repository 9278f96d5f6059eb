"""First contact: one string that brings a guest to a hub and both to each other's keys.

`eki1.BODY`, base64url of canonical JSON (`Invite`). It holds two secrets: `code`, which the guest shows to the hub
once (the hub keeps only its digest), and `secret`, which the hub never sees. With the secret the guest proves to
the inviter that a key in the directory is the guest's own (`proof`), and the inviter's key in the string is the
guest's first pin. Whoever hands the string over a way that the hub can read compares `keys.compare_code` as well.
"""

import hashlib
import hmac
import secrets

import msgspec

from ekiden.crypto import keys, statements
from ekiden.crypto.keys import KEY_BYTES, PublicKeys, RandomBytes, read, spell
from ekiden.crypto.shape import Struct
from ekiden.kernel import canonical
from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import INVITE_CHARS_MAX

_PREFIX = "eki1"
CODE_BYTES = 20


class Invite(Struct, frozen=True):
    """What an invite string says. Keys are base64url; without `secret` and `sign` it brings a key but no trust."""

    hub: str
    """The address of the door."""
    team: str
    invite: str
    """Its id."""
    code: str
    secret: str = ""
    principal: str = ""
    """Who invites: id and name."""
    name: str = ""
    sign: str = ""
    wrap: str = ""
    hub_key: str = ""

    @property
    def inviter(self) -> PublicKeys | None:
        """The inviter's keys, if the string has them."""
        return PublicKeys(read(self.sign, KEY_BYTES), read(self.wrap, KEY_BYTES)) if self.sign else None


def new_code(random: RandomBytes = secrets.token_bytes) -> str:
    """What the guest shows to the hub: 160 random bits, base64url."""
    return spell(random(CODE_BYTES))


def code_digest(code: str) -> str:
    """What the hub keeps of a code, in hex."""
    return hashlib.sha256(b"ekiden/1/invite-code\n" + code.encode("utf-8", "replace")).hexdigest()


def new_invite_secret(random: RandomBytes = secrets.token_bytes) -> str:
    """What guest and inviter share and the hub never sees: 256 random bits, base64url."""
    return spell(random(KEY_BYTES))


def spell_invite(invite: Invite) -> str:
    """The string that is handed over."""
    return f"{_PREFIX}.{spell(canonical.exact(msgspec.to_builtins(invite)))}"


def read_invite(text: str) -> Invite:
    """What an invite string says.

    Raises:
        Invalid: if it is none.
    """
    prefix, _, body = text.strip().partition(".")
    try:
        if prefix != _PREFIX or len(text) > INVITE_CHARS_MAX:
            raise Invalid("not an invite")
        invite = msgspec.json.decode(read(body), type=Invite)
        _ = invite.inviter
    except (Invalid, msgspec.DecodeError):
        raise Invalid(
            "This is not an invite.", hint=f"An invite begins with {_PREFIX}. and is one word."
        ) from None
    return invite


def proof(secret: str, *, team: str, invite: str, principal: str, public: PublicKeys) -> str:
    """What a guest puts beside its key in the directory: HMAC-SHA256 under the invite's secret, base64url."""
    said = statements.statement(
        statements.Domain.INVITE,
        {
            "team": team,
            "invite": invite,
            "principal": principal,
            "member_key": public.member_key_id,
            "sign": keys.spell(public.sign),
            "wrap": keys.spell(public.wrap),
        },
    )
    return spell(hmac.digest(read(secret, KEY_BYTES), said, "sha256"))


def proven(given: str, secret: str, *, team: str, invite: str, principal: str, public: PublicKeys) -> bool:
    """Whether `given` is the proof for this key."""
    wanted = proof(secret, team=team, invite=invite, principal=principal, public=public)
    return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace"))
