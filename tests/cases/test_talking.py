"""Agents and people that talk while things go wrong around them, seen from outside: a real hub, real processes."""

import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from cli.conftest import Person, until
from ekiden.testing.relay.door import Door, channel_path
from relay.addresses import door_of, one_hub

SENDERS, EACH = 8, 25
SENDER = """
import json, sys
from ekiden.testing.relay.door import Door, channel_path
url, number, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
door = Door(url, sys.stdin.readline().strip())
for one in range(each):
    message_id = f"msg_{number:010}{one:010}"
    print("sends", flush=True)
    for attempt in range(2):
        answer = door.post(channel_path("build", "messages"), {"text": "x", "message_id": message_id})
        print(json.dumps([message_id, answer.status, answer.ok and answer["message"]["number"]]), flush=True)
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with one_hub(tmp_path) as person:
        yield person


def owner_of(person: Person) -> Door:
    """The owner at the door of what was started."""
    address = door_of(person)
    return Door(address.url, address.key)


def test_many_processes_send_while_another_program_holds_the_database(person: Person) -> None:
    """Each message is stored once or refused; what was answered as stored is; a message that is sent again has the
    number that it had."""
    owner = owner_of(person)
    assert owner.post("/v1/channels", {"name": "build"}).ok
    senders = [
        subprocess.Popen(
            [sys.executable, "-c", SENDER, owner.url, str(number), str(EACH)],
            env=person.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(SENDERS)
    ]
    with closing(sqlite3.connect(person.data / "ekiden.db", isolation_level=None)) as foreign:
        foreign.execute("PRAGMA busy_timeout = 10000")
        foreign.execute("BEGIN IMMEDIATE")
        for sender in senders:
            assert sender.stdin is not None
            sender.stdin.write(f"{owner.key}\n")
            sender.stdin.flush()
        for sender in senders:
            assert sender.stdout is not None
            assert sender.stdout.readline() == "sends\n"
        assert owner.get(channel_path("build", "messages")).body.get("messages", []) == []
        foreign.execute("ROLLBACK")
    with ThreadPoolExecutor(SENDERS) as readers:
        outputs = list(readers.map(lambda sender: sender.communicate(timeout=60)[0], senders))
    assert [sender.returncode for sender in senders] == [0] * SENDERS
    answers = [json.loads(line) for output in outputs for line in output.splitlines() if line != "sends"]
    assert len(answers) == SENDERS * EACH * 2
    assert {status for _, status, _ in answers} <= {201}
    numbers: dict[str, set[int]] = {}
    for message_id, _, number in answers:
        numbers.setdefault(message_id, set()).add(number)
    stored: dict[str, int] = {}
    after = "0"
    while after:
        page = owner.get(channel_path("build", "messages"), after=after, limit=100).body
        stored |= {message["message_id"]: message["number"] for message in page["messages"]}
        after = page.get("after", "")
    assert {message_id: {number} for message_id, number in stored.items()} == numbers
    assert sorted(stored.values()) == list(range(1, SENDERS * EACH + 1))


def test_a_list_that_never_arrived_has_taken_nothing_away(person: Person) -> None:
    """Four unread; a client asks and dies before it reads the answer; by the door, the command line and any filter
    there are still four, until they are acked."""
    owner = owner_of(person)
    made = owner.post("/v1/keys", {"name": "reader", "kind": "agent"})
    reader = Door(owner.url, made["key"])
    assert owner.post("/v1/channels", {"name": "build"}).ok
    assert reader.put(channel_path("build", "members", "me")).ok
    for number in range(4):
        assert owner.post(channel_path("build", "messages"), {"text": f"@reader handoff {number}"}).ok
    host, _, port = owner.url.removeprefix("http://").partition(":")
    for target in ("/v1/mentions", channel_path("build", "messages") + "?unread=1"):
        with socket.create_connection((host, int(port))) as dying:
            head = f"GET {target} HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {reader.key}\r\n\r\n"
            dying.sendall(head.encode())
            assert dying.recv(1)

    def waiting() -> list[int]:
        listed = person.ekiden("mentions", EKIDEN_KEY=reader.key)
        assert listed.code == 0, listed.err
        return [
            len(reader.get("/v1/mentions").body.get("mentions", [])),
            len(reader.get(channel_path("build", "messages"), unread=1).body["messages"]),
            len(reader.get(channel_path("build", "messages"), mentions="me").body["messages"]),
            sum(f"handoff {number}" in listed.out for number in range(4)),
        ]

    assert waiting() == [4, 4, 4, 4]
    assert waiting() == [4, 4, 4, 4]
    assert reader.post(channel_path("build", "acks"), {"upto": 3}).ok
    assert waiting()[:2] == [1, 1]


def test_what_was_answered_is_there_after_the_hub_was_killed(person: Person) -> None:
    """SIGKILL while several send: what was answered as stored is there once, with its number, and what is sent
    again with its id after the start has the place that it had, or gets one."""
    owner = owner_of(person)
    port = owner.url.rpartition(":")[2]
    assert owner.post("/v1/channels", {"name": "build"}).ok
    process = person.processes[-1]
    answered: dict[str, int] = {}

    def send(number: int) -> None:
        for one in range(200):
            message_id = f"msg_{number:010}{one:010}"
            try:
                answer = owner.post(
                    channel_path("build", "messages"), {"text": message_id, "message_id": message_id}
                )
            except OSError:
                return
            if not answer.ok:
                return
            answered[message_id] = answer["message"]["number"]

    with ThreadPoolExecutor(4) as senders:
        sending = [senders.submit(send, number) for number in range(4)]
        until(lambda: len(answered) > 40, "messages were answered")
        process.kill()
        for one in sending:
            one.result()
    process.wait(20)
    person.up("--port", port)
    again = owner_of(person)
    for message_id, number in answered.items():
        told = again.get(channel_path("build", "messages", message_id))
        assert (told["number"], told["text"]) == (number, message_id)
    for number in range(4):
        message_id = f"msg_{number:010}{0:010}"
        posted = again.post(channel_path("build", "messages"), {"text": message_id, "message_id": message_id})
        assert posted.ok
        assert posted["message"]["number"] == answered.get(message_id, posted["message"]["number"])
    newest = again.get(channel_path("build"))["last_number"]
    assert newest >= len(answered)
