"""An MCP server over standard pipes with one tool, which answers what it was told and by what it was started.

The tests give it to the vendors' real programs. It needs nothing but Python.
"""

import json
import os
import sys

TOOL = {
    "name": "say",
    "description": "Says it.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(request):
    """What is answered to one request."""
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "stub", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            said = f"{request['params']['arguments'].get('text')} from {os.environ.get('STUB_SEAT', 'nowhere')}"
            return {"content": [{"type": "text", "text": said}]}
        case _:
            return {}


def main():
    """Answers until its input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}
            print(json.dumps(reply), flush=True)


main()
