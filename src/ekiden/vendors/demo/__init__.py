"""A scripted agent that needs no account: so that everything can be tried, and tested, at once.

It runs as a process of its own, keeps session files of its own, streams, thinks, asks before it acts, runs
harmless commands, plans, starts a helper, fails when told to, and can be interrupted, resumed and forked.
What it does follows from words in the prompt; `ekiden.vendors.demo.script` lists them.
"""
