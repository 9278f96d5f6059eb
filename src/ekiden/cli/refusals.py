"""How the command line tells an error: what happened, why, and what to do next. Never a traceback."""

import json
import sys
from collections.abc import Iterable
from typing import Any, cast

from ekiden.cli.exit_codes import exit_code_of
from ekiden.cli.screen import line_of, visible
from ekiden.kernel.errors import EkidenError

_SHOWN_CHARS_MAX = 2000


def tell(error: EkidenError, *, as_json: bool) -> int:
    """Writes `error` to standard error and returns its exit code."""
    code = exit_code_of(error)
    if as_json:
        answer = {
            "error": error.code,
            "message": error.message,
            "hint": error.hint,
            "details": error.details,
            "exit_code": code,
        }
        print(json.dumps(answer, default=str), file=sys.stderr)
        return code
    print(f"ekiden: {visible(error.message)}", file=sys.stderr)
    for line in _details(error.details.items(), said=f"{error.message}\n{error.hint}"):
        print(f"  {line}", file=sys.stderr)
    if error.hint:
        print(f"  {visible(error.hint)}", file=sys.stderr)
    return code


def _details(details: Iterable[tuple[str, Any]], *, said: str) -> Iterable[str]:
    """Details that the sentences do not contain already."""
    for name, value in details:
        if value in ("", None, [], {}) or str(value) in said:
            continue
        parts = cast(list[Any], value) if isinstance(value, list) else [value]
        shown = ", ".join(map(str, parts))
        yield f"{line_of(name).replace('_', ' ')}: {line_of(shown[:_SHOWN_CHARS_MAX])}"
