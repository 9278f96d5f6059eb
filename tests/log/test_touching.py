"""Which statements may meet is judged from their texts: too carefully is allowed, too boldly never."""

import pytest

from ekiden.hub.wiring import ROOMS
from ekiden.log.queries import joined, room_queries
from ekiden.log.touching import Traces, touched

READ = "SELECT a.x FROM a WHERE a.team_id = :team_id AND a.id = :id"
JOINED = "SELECT s.x, h.y FROM a s JOIN b h ON h.id = s.b_id WHERE s.id = :id"
PUT = "INSERT INTO a (id, x) VALUES (:id, :x) ON CONFLICT (id) DO UPDATE SET x = excluded.x"
ADD = "INSERT INTO a (id, x) VALUES (:id, :x)"
SET = "UPDATE a SET x = :x WHERE id = :id"
DROP = "DELETE FROM a WHERE id = :id"
RENAME = "UPDATE a SET id = :new WHERE id = :id"
SET_ALL = "UPDATE a SET x = :x"
PUT_OTHER_TABLE = "INSERT INTO b (id) VALUES (:id) ON CONFLICT (id) DO NOTHING"


def meet(change, question, changed, asked):
    traces = Traces()
    traces.add(touched(change), changed)
    return traces.meets(touched(question), asked)


@pytest.mark.parametrize("question", [READ, JOINED])
@pytest.mark.parametrize("change", [PUT, ADD, SET, DROP])
def test_rows_of_one_table_meet_only_under_the_same_key(change, question):
    asked = {"team_id": "t", "id": "1"}
    assert meet(change, question, {"id": "1", "x": "2"}, asked)
    assert not meet(change, question, {"id": "2", "x": "1"}, asked)


@pytest.mark.parametrize(
    ("change", "question"),
    [
        (RENAME, READ),  # the row may get the id that is asked for
        (SET_ALL, READ),
        (PUT_OTHER_TABLE, JOINED),  # no row of the second table is named
        (SET, "SELECT x FROM a"),
        (SET, "SELECT x FROM a WHERE id = :id OR x = :x"),
        (SET, "SELECT x FROM a WHERE id < :id"),
        (SET, "SELECT x FROM a WHERE NOT id = :id"),
        (SET, "SELECT x FROM c WHERE id = :id AND x IN (SELECT x FROM a)"),
        (SET, "SELECT x FROM c, a WHERE c.id = :id"),
        (SET, "SELECT x FROM c LEFT JOIN a ON a.id = c.id WHERE c.id = :id"),
        ("UPDATE a SET x = 1 WHERE id = :id OR x = :x", READ),
        ("INSERT INTO a (id, x) SELECT id, x FROM c WHERE id = :id", READ),
        ("INSERT INTO a (id, x) VALUES (:id, :x) ON CONFLICT (x) DO UPDATE SET id = excluded.id", READ),
        ("WITH w AS (DELETE FROM a WHERE id = :id RETURNING x) SELECT x FROM w", READ),
        ("DELETE FROM a WHERE id = lower(:id)", READ),
    ],
)
def test_what_may_touch_other_rows_than_it_names_meets(change, question):
    parameters = {"id": "1", "x": "1", "new": "9"}
    assert meet(change, question, parameters, {"team_id": "t", "id": "2", "x": "2"})


def test_a_row_is_told_apart_only_by_a_column_that_all_changes_name():
    traces = Traces()
    traces.add(touched(SET), {"id": "1", "x": ""})
    assert not traces.meets(touched(READ), {"team_id": "t", "id": "2"})
    traces.add(touched("UPDATE a SET x = :x WHERE other = :other"), {"other": "1", "x": ""})
    assert traces.meets(touched(READ), {"team_id": "t", "id": "2"})


def test_a_name_in_a_comment_or_a_text_is_no_table():
    assert touched("SELECT x -- FROM b\nFROM a WHERE id = :id").tables == {"a": {"id": "id"}}
    assert touched("SELECT x FROM a WHERE id = 'FROM b' AND y = :y").tables is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM a WHERE id = :id ORDER BY x",
        "SELECT x FROM a WHERE id = :id LIMIT 1",
        "SELECT count(*) AS x FROM a",
        "SELECT x FROM a WHERE id IN (SELECT id FROM b)",
        SET,
    ],
)
def test_only_what_gives_the_same_rows_beside_others_is_a_lookup(sql):
    assert not touched(sql).lookup


def test_what_rooms_ask_most_is_understood():
    queries = joined(*(room_queries(room) for room in ROOMS))
    assert all(touched(queries[f"sessions.{name}"]).lookup for name in ("session", "message", "approval", "turn"))
    for name in ("put_session", "set_counts", "put_message", "put_approval", "put_turn"):
        (table,) = touched(queries[f"sessions.{name}"]).tables.values()
        assert table
