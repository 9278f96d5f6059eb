"""What members of a team can prove and hide, pure: no clock, no network, no files.

`keys` (a member's two key pairs, and their names), `statements` (what is signed), `sealing` (what is hidden),
`epochs` (who holds a channel's key), `directory` (whose keys are whose), `invites`, `tickets` (a lease that a
script can check), `chain` (the log's hash chain), `verify` (an export, checked without any hub).

Primitives come from the library `cryptography` and nowhere else; it is imported at the first use, so that a
program that signs nothing does not pay for it.
"""
