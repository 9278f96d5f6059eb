"""The page and Python sign, seal and wrap alike: each opens what the other has made, in a real Chromium."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser

from crypto.make_vectors import PLACE
from crypto.people import ANNA, BEN, CHANNEL, TEAM
from ekiden.crypto import directory, epochs, keys, sealing
from ekiden.crypto.directory import NewEntry
from ekiden.crypto.epochs import NewEpoch
from ekiden.crypto.keys import PublicKeys
from ekiden.crypto.sealing import Place
from web.stub_door import StubDoor

pytestmark = pytest.mark.browser

RUNNER = Path(__file__).with_name("crypto_vectors.mjs").read_text()


@pytest.fixture
def made(chromium: Browser, door: StubDoor) -> Any:
    """What the page says of the vectors, and what it made."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{door.url}/assets/manifest.webmanifest")
    runner = RUNNER.replace("export async function run", "async function run")
    yield page.evaluate(f"async (vectors) => {{ {runner}\n return run(vectors); }}", json.loads(PLACE.read_text()))
    context.close()


def test_the_page_agrees_with_every_vector_and_python_opens_what_it_makes(made: Any) -> None:
    assert made["differs"] == []
    public = PublicKeys(keys.read(made["member"]["sign"]), keys.read(made["member"]["wrap"]))
    assert public.member_key_id == made["member"]["member_key"]

    entry = msgspec.convert(made["entry"], NewEntry)
    assert directory.checked(entry, TEAM, {}) == public
    vouch = msgspec.convert(made["vouch"], NewEntry)
    assert keys.signed_by(ANNA.public.sign, vouch.signature, vouch.statement(TEAM))

    new = msgspec.convert(made["epoch"], NewEpoch)
    assert keys.signed_by(public.sign, new.epoch.signature, new.epoch.statement(TEAM))
    assert [principal for principal, _ in new.epoch.members] == ["pri_ben", "pri_page"]
    for wrap in new.wraps:
        assert keys.signed_by(public.sign, wrap.signature, wrap.statement(TEAM, CHANNEL))
    key = epochs.unwrap(BEN, new.wraps[0].wrapped, team=TEAM, epoch=new.epoch)
    assert keys.spell(key) == made["key"]

    place = Place(**made["place"])
    opened = sealing.open_sealed(key, place, made["sealed"]["nonce"], made["sealed"]["data"])
    assert opened == {"text": "from the page €", "title": ""}
    file = keys.read(made["file"]["data"])
    assert sealing.open_file(file, made["file"]["key"], team=TEAM, channel=CHANNEL) == b"a file of the page"
