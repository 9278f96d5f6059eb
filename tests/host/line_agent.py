"""The line vendor's agent: a process that takes orders on its input and writes its session file.

It starts a server that starts its worker late, when the file `serve` appears beside it. `spawn` starts children
that try to escape; `stray` one that nothing ties to it any more; `hold` runs until interrupted; `ask` asks first;
anything else is repeated. When its input ends it finishes, like Claude Code does.
"""

import json
import os
import subprocess
import sys
import threading

path = sys.argv[1]
stop = threading.Event()
decided = threading.Event()
turns: list[dict[str, object]] = []
more = threading.Condition()
ended = False


def tell(**told: object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def write(kind: str, row_id: str, text: str, **extra: object) -> None:
    with open(path, "ab") as file:
        row = {"k": kind, "id": row_id, "text": text, "cwd": os.getcwd(), **extra}
        file.write(json.dumps(row).encode() + b"\n")


def run(order: dict[str, object]) -> None:
    message, text = str(order["message"]), str(order["text"])
    turn = message
    stop.clear()
    tell(e="placed", message=message, turn=turn, how="new_turn")
    tell(e="started", turn=turn)
    write("user", f"u-{message}", text, open=True)
    if "ask" in text:
        tell(e="asked", id=f"q-{message}", turn=turn)
        decided.wait()
        decided.clear()
    if "spawn" in text:
        script = "sleep 600 & setsid sleep 601 & nohup sleep 602 >/dev/null 2>&1 & trap '' TERM; sleep 603 & wait"
        subprocess.Popen(["sh", "-c", script], stdout=subprocess.DEVNULL)
        subprocess.Popen(["env", "-i", "setsid", "sleep", "604"], stdout=subprocess.DEVNULL)
    if "stray" in text:
        subprocess.run(["sh", "-c", "env -i setsid sleep 607 >/dev/null 2>&1 &"])
    if "keep" in text:
        subprocess.Popen(["sleep", "605"], stdout=subprocess.DEVNULL, start_new_session=True)
    outcome = "completed"
    if "hold" in text or "spawn" in text or "stray" in text:
        tell(e="grew", id=f"a-{message}", turn=turn, text="begun ")
        while not stop.wait(0.02):
            if ended:
                break
        outcome = "interrupted" if stop.is_set() else "completed"
    else:
        for word in ("you ", "said ", text):
            tell(e="grew", id=f"a-{message}", turn=turn, text=word)
    write("say", f"a-{message}", f"you said {text}", open=False)
    tell(e="ended", turn=turn, outcome=outcome)


def work() -> None:
    while True:
        with more:
            more.wait_for(lambda: turns or ended)
            if not turns:
                os._exit(0)
            order = turns.pop(0)
        run(order)


if "serve" in os.environ.get("EKIDEN_DEMO_LINE", ""):
    subprocess.Popen(
        ["sh", "-c", "while [ ! -f serve ]; do sleep 0.05; done; sleep 606"],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
tell(e="ready")
worker = threading.Thread(target=work)
worker.start()
for line in sys.stdin:
    order = json.loads(line)
    if order["o"] == "say":
        with more:
            turns.append(order)
            more.notify()
    elif order["o"] == "interrupt":
        stop.set()
    elif order["o"] == "decide":
        decided.set()
with more:
    ended = True
    decided.set()
    more.notify()
worker.join()
