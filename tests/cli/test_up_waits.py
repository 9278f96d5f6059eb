"""`ekiden up` while Postgres is away: it waits and says so, at its port and on the screen, until it is there."""

import json
import signal
import threading
import urllib.error
import urllib.request

import pytest
from tests.cli.conftest import until

from nats_server import free_port
from postgres_server import fresh_database, server


class Waiting:
    """`ekiden up` on a database, with what it said so far."""

    def __init__(self, person, database):
        self.port = free_port()
        person.environment["EKIDEN_DATABASE_URL"] = database
        self.process = person.begin("up", "--no-host", "--no-open", "--port", str(self.port))
        self.said = []
        threading.Thread(target=lambda: self.said.extend(self.process.stdout), daemon=True).start()

    def ask(self, path, method="GET"):
        """Status and body, or nothing while nobody answers."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except OSError:
            return None


@pytest.fixture
def stopped():
    """A database whose server is stopped; it runs again afterwards."""
    database = fresh_database()
    server().stop("fast")
    running = []

    def start():
        if not running:
            running.append(True)
            server().start()

    yield database, start
    start()


def test_it_waits_with_its_reason_at_the_port_and_begins_once_postgres_is_there(person, stopped):
    database, start = stopped
    node = Waiting(person, database)
    status, body = until(lambda: node.ask("/readyz"), "the port answers")
    told = json.loads(body)
    assert (status, told["code"], told["retry_helps"]) == (503, "store_away", True)
    assert told["details"]["reason"] == "Postgres cannot be reached"
    assert node.ask("/v1/sessions", "POST")[0] == 503
    assert node.ask("/healthz", "HEAD") == (503, b"")
    until(lambda: any("starts as soon as it answers" in line for line in node.said), "the screen says so")
    assert sum("starts as soon as it answers" in line for line in node.said) == 1
    start()
    until(lambda: (node.ask("/readyz") or (0,))[0] == 200, "the node is ready")
    node.process.send_signal(signal.SIGINT)
    assert node.process.wait(20) == 0


def test_who_waits_can_be_ended(person, stopped):
    node = Waiting(person, stopped[0])
    until(lambda: node.ask("/readyz"), "the port answers")
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(20) == 0


def test_what_does_not_pass_by_itself_is_said_and_ends_it(person):
    node = Waiting(person, fresh_database().replace("/test_", "/no_such_"))
    assert node.process.wait(20) != 0
    until(lambda: any("Postgres has no such database" in line for line in node.said), "the reason")
