"""Agents that wake each other come to an end: budgets, and a damper for turns that say nothing new. Pure.

An account is kept for each thread, and one for what is said outside of threads. It counts from the last word of a
person:
- *hops*: a chain of wake-ups (a person wakes A, A wakes B, …) has at most `hops` links, rings of any length too.
How
  far each agent is from a person goes with it, into other threads and channels;
- *pair*: two wake each other in turn at most `pair` times;
- *thread*: in one thread there are at most `thread` wake-ups among agents;
- *damper*: after `damper` messages in a row that say nothing new, nobody is woken until something new is said.

Whatever is not waking is stored and waits all the same. An entry that is older than `WAKES_FORGOTTEN_S` no longer
counts: what happens once an hour is no loop.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ekiden.kernel.limits import WAKE_PAIRS_MAX, WAKES_FORGOTTEN_S, WORDS_REMEMBERED_MAX
from ekiden.relay.wire import Budgets

HOPS, PAIR, THREAD, NOTHING_NEW = "loop_hops", "loop_pair", "loop_thread", "nothing_new"


class PairWakes(msgspec.Struct, frozen=True, array_like=True):
    """How often two woke each other in turn, who was the last to do so, and when (seconds)."""

    turns: int
    last_from: str
    at: int


class Woken(msgspec.Struct, frozen=True):
    """How many wake-ups lie between an agent and the last word of a person; the seq and time (seconds) of the last
    one."""

    hops: int
    seq: int
    at: int


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who woke whom since a person spoke."""

    wakes: int = 0
    at: int = 0
    spoken_seq: int = 0
    """Of the last word of a person, in a thread's account."""
    pairs: dict[str, PairWakes] = {}
    stale: int = 0
    words: tuple[str, ...] = ()
    stopped: str = ""


NO_WAKES = Account()
"""The account after a person spoke, and where nobody ever woke anybody."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message as the account sees it. `hops` is how many wake-ups lie between it and the last word of a person,
    `words` are what could be new in it, None if it cannot be read (sealed);
    `asks` whether it asks something or brings something (an attachment, an answer that was asked for)."""

    sender_id: str
    by_person: bool
    hops: int
    words: tuple[str, ...] | None
    asks: bool
    at: int


@dataclass(frozen=True, slots=True)
class Judged:
    """What follows: the account from now on, and for each who would be woken the reason why it is not ("" if it
    is)."""

    account: Account
    why: tuple[str, ...]


def hops_of(woken: Woken | None, *, spoken_seq: int, at: int) -> int:
    """How many wake-ups lie between what an agent says now and the last word of a person, which was heard here at
    `spoken_seq`."""
    if woken is None or woken.seq < spoken_seq or at - woken.at > WAKES_FORGOTTEN_S:
        return 0
    return woken.hops


def judge(
    account: Account, budgets: Budgets, said: Said, recipients: Sequence[tuple[str, bool]], *, in_thread: bool
) -> Judged:
    """Decides who is woken by a message. `recipients` are (principal id, whether it is a person).

    A person's word begins the account anew, and a mention of a person is always delivered.
    """
    if said.by_person:
        return Judged(Account(at=said.at), ("",) * len(recipients))
    account = _heard(_remembered(account, said.at), said)
    if all(person for _, person in recipients):
        return Judged(account, ("",) * len(recipients))
    whole = ""
    if said.hops >= budgets.hops:
        whole = HOPS
    elif account.stale > budgets.damper:
        whole = NOTHING_NEW
    pairs, wakes = dict(account.pairs), account.wakes
    why: list[str] = []
    for who, person in recipients:
        reason = "" if person else whole
        if not person and not reason:
            key = f"{min(said.sender_id, who)} {max(said.sender_id, who)}"
            pair = _with_turn(pairs.get(key), said)
            if in_thread and wakes >= budgets.thread:
                reason = THREAD
            elif pair.turns > budgets.pair:
                reason = PAIR
            else:
                wakes += 1
                pairs[key] = pair
        why.append(reason)
    stops = [reason for reason in why if reason]
    woke = any(not reason and not person for reason, (_, person) in zip(why, recipients, strict=True))
    account = msgspec.structs.replace(
        account,
        wakes=wakes,
        at=said.at,
        pairs=_newest(pairs),
        stopped=stops[0] if stops and not woke else "",
    )
    return Judged(account, tuple(why))


def wakes_left(account: Account, budgets: Budgets) -> int:
    """How many wake-ups among agents a thread has left before a person speaks."""
    return max(0, budgets.thread - account.wakes)


def _with_turn(pair: PairWakes | None, said: Said) -> PairWakes:
    """One turn more, if it goes the other way than the last; telling somebody several things is one turn."""
    if pair is None:
        return PairWakes(1, said.sender_id, said.at)
    return PairWakes(pair.turns + (pair.last_from != said.sender_id), said.sender_id, said.at)


def _heard(account: Account, said: Said) -> Account:
    """The account with the words of a message; how many in a row had nothing new."""
    if said.words is None:
        return account
    fresh = [word for word in said.words if word not in account.words]
    stale = 0 if fresh or said.asks else account.stale + 1
    return msgspec.structs.replace(
        account, stale=stale, words=(*account.words, *fresh)[-WORDS_REMEMBERED_MAX:], at=said.at
    )


def _remembered(account: Account, now: int) -> Account:
    """The account without what is forgotten by now."""
    if account.at and now - account.at > WAKES_FORGOTTEN_S:
        return Account(spoken_seq=account.spoken_seq)
    old = now - WAKES_FORGOTTEN_S
    pairs = {key: pair for key, pair in account.pairs.items() if pair.at >= old}
    return msgspec.structs.replace(account, pairs=pairs)


def _newest(pairs: dict[str, PairWakes]) -> dict[str, PairWakes]:
    """At most `WAKE_PAIRS_MAX` of them: those that were used last."""
    if len(pairs) <= WAKE_PAIRS_MAX:
        return pairs
    return dict(sorted(pairs.items(), key=lambda entry: entry[1].at)[-WAKE_PAIRS_MAX:])


# --- what is new in a text ---------------------------------------------------------------------------------

_MENTION = re.compile(r'@"[^"\n]*"|@[\w.:-]+')
_WORD = re.compile(r"[^\W_]+(?:[._/:#@+-]+[^\W_]+)*")
_COURTESY = """
a about absolutely ack acked acknowledge acknowledged acknowledging again agree agreed all alright always
am an and any anything anytime appreciate appreciated are as at awesome be been best brilliant but by bye
can cheers clear confirm confirmed cool copied copy could day did do does doing done don't else enjoy
everything excellent exactly fantastic feel fine for forward free from further glad go good goodbye got
great had happy has have he hear heard hello help helpful here hey hi hope how i i'd i'll i'm if in
indeed is it it's its just keep kind know let let's likewise looking luck many me more much my need
needed nice no nope not note noted now of off ok okay on or otherwise our out perfect please pleased
pleasure pleasant problem rather read ready received really regards reach right roger same see seen she
so soon sounds stand standing still sure take talk thank thanks that that's the their them then there
these they thing things this thumbs to together too touch true understand understood until up upon us
very was we we'll we're week welcome well were what whenever will wish with wonderful work working works
would yeah yep yes yet you you'll you're your yours
"""
_POLITE = frozenset(word.replace("'", "") for word in _COURTESY.split())
_POLITE_HAN = re.compile(
    r"[谢感辛苦收到明白好的吧呢了嗯哦啊是对行可以没问题不客气再见祝愉快顺利合作您你我们大家已随时联系请多指教太棒非常]+"
)


def words_of(text: str) -> tuple[str, ...]:
    """What could be news in a text, each once: words, numbers, paths and links that are no mention and no
    courtesy. Writing without spaces between words is taken in pairs of letters."""
    folded = unicodedata.normalize("NFKC", _MENTION.sub(" ", text)).casefold().replace("\u2019", "'")
    found: dict[str, None] = {}
    for word in _WORD.findall(re.sub(r"(\w)'(\w)", r"\1\2", folded)):
        if word.isascii():
            if word not in _POLITE:
                found[word] = None
            continue
        for part in _POLITE_HAN.split(word):
            if len(part) == 1 and part.isascii():
                continue
            if len(part) < 3:
                if part:
                    found[part] = None
                continue
            for start in range(0, len(part) - 1, 2):
                found[part[start : start + 2]] = None
    return tuple(found)[:WORDS_REMEMBERED_MAX]
