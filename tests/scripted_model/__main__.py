"""`python -m scripted_model [PORT]`: runs the server until it is interrupted, for trying things by hand."""

import sys
import threading

from scripted_model import serve

server, port = serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
print(f"scripted model on http://127.0.0.1:{port}", flush=True)
try:
    threading.Event().wait()
except KeyboardInterrupt:
    server.close()
