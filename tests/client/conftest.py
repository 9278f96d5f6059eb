"""The same door reached in each way that a client can take."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn

from client.door_stub import DoorStub
from ekiden.client.client import Client
from ekiden.client.network import NetworkTransport
from ekiden.testing.bridge import Bridge


@pytest.fixture
def door(anyio_backend: str) -> DoorStub:
    return DoorStub()


@pytest.fixture
async def served(door: DoorStub) -> AsyncIterator[str]:
    """The stub behind a real server on loopback; its address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(door, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:  # noqa: ASYNC110 (uvicorn offers nothing to wait on)
        await asyncio.sleep(0.005)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    await task
    listening.close()


@pytest.fixture(params=["network", "bridge"])
async def client(request: pytest.FixtureRequest, door: DoorStub, served: str) -> AsyncIterator[Client]:
    transport = NetworkTransport(served) if request.param == "network" else Bridge(door)
    async with Client(key="ekd_k", transport=transport) as client:
        yield client
