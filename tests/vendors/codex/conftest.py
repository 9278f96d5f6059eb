"""What the tests with the real Codex share: the scripted model, and a home of its own for each test."""

import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ekiden.vendors.codex import vendor
from ekiden.vendors.port import Begin, ToolServer, Vendor
from scripted_model import ScriptedModel, serve
from vendors.codex.files import lines_of, merged
from vendors.codex.runs import Run

# Codex does not make its helpers while its home is under the system's temporary folder.
RESULTS = Path(__file__).parents[3] / ".test-results"
CONFIG = """\
model = "fake-model"
model_provider = "fake"
approval_policy = "{approvals}"
sandbox_mode = "{sandbox}"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:{port}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    """One scripted model for all tests of a worker; scripts and holds are told apart by their prompts."""
    server, _ = serve(0, delay=0.0)
    yield server
    server.close()


class Codex:
    """The real Codex in a home of its own."""

    def __init__(self, home: Path, model: ScriptedModel, stack: AsyncExitStack) -> None:
        self.home, self.model = home, model
        self.project = home / "project"
        self.environment = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "FAKE_KEY": "x"}
        self.vendor = self.another()
        self._stack = stack

    def another(self) -> Vendor:
        """Codex as another program on the same computer has it."""
        return vendor(self.home, self.environment)

    def configure(self, *, approvals: str = "never", sandbox: str = "danger-full-access") -> None:
        """Writes the person's own configuration."""
        folder = self.home / ".codex"
        folder.mkdir(exist_ok=True)
        port = self.model.server_address[1]
        (folder / "config.toml").write_text(CONFIG.format(approvals=approvals, sandbox=sandbox, port=port))

    async def run(
        self,
        *,
        resume: str = "",
        fork_of: str = "",
        vendor: Vendor | None = None,
        tools: ToolServer | None = None,
    ) -> Run:
        """A started runtime, closed at the end of the test."""
        begin = Begin(cwd=self.project, resume=resume, fork_of=fork_of, tools=tools)
        runtime = (vendor or self.vendor).runtime(begin, self.environment)
        return await self._stack.enter_async_context(Run(runtime))

    def rollout(self, native_id: str) -> Path:
        """The session's file."""
        (found,) = [file.path for file in self.another().discovery.files() if file.native_id == native_id]
        return found

    def read(self, native_id: str):
        """The items in the session's file, and its facts."""
        (file,) = [file for file in self.another().discovery.files() if file.native_id == native_id]
        fold = self.vendor.fold(file)
        items = [item for line in lines_of(file.path.read_bytes()) for item in fold.feed(line)]
        return merged(items), fold.facts


@pytest.fixture
async def codex(model: ScriptedModel) -> AsyncIterator[Codex]:
    """See `Codex`."""
    home = RESULTS / f"codex-{uuid.uuid4().hex[:12]}"
    (home / "project").mkdir(parents=True)
    try:
        async with AsyncExitStack() as stack:
            codex = Codex(home, model, stack)
            codex.configure()
            yield codex
    finally:
        shutil.rmtree(home, ignore_errors=True)
