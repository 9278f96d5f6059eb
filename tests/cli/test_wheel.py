"""What is installed is what is in the repository: a wheel is built and looked into."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ekiden"


def test_the_wheel_carries_every_file_of_the_package(tmp_path: Path) -> None:
    """Modules, SQL, the page with its vendored scripts; nothing else; and the command's name."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=100,
    )
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {name for name in wheel.namelist() if name.startswith("ekiden/")}
        entry_points = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
        assert "ekiden = ekiden.cli.__main__:main" in wheel.read(entry_points).decode()
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "src/ekiden"], cwd=ROOT, check=True, capture_output=True, timeout=30
    ).stdout.decode()
    wanted = {name.removeprefix("src/") for name in tracked.split("\0") if name and (ROOT / name).exists()}
    assert wanted - packed == set()
    assert {Path(name).suffix for name in packed} >= {".py", ".sql", ".js", ".css", ".html"}
    assert not [name for name in packed if name.endswith(".pyc")]
