-- Which node does which chore. While it works, `until_ms` (since the epoch) is the end of its lease; when it is done,
-- when the chore is due again. `fence` grows each time: work that was begun under an older one is refused.
CREATE TABLE leases (
    name text NOT NULL PRIMARY KEY,
    owner text NOT NULL,
    until_ms bigint NOT NULL,
    fence bigint NOT NULL
);
