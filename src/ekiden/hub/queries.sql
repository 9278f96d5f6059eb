-- Chores: which node does them, and what they take away.

-- name: take_lease
-- Takes a lease that has run out; changes no row while it holds.
INSERT INTO leases (name, owner, until_ms, fence) VALUES (:name, :owner, :until_ms, 1)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until_ms = excluded.until_ms, fence = leases.fence + 1
WHERE leases.until_ms <= :now_ms;

-- name: lease
-- Who holds a lease, and until when.
SELECT owner, until_ms, fence FROM leases WHERE name = :name;

-- name: end_lease
-- Says when a chore that was done is due again, if it is still ours.
UPDATE leases SET until_ms = :until_ms WHERE name = :name AND fence = :fence;

-- name: forget_commands
-- Drops some of the answers that no repeated command may ask for any more.
DELETE FROM commands WHERE (team_id, principal_id, command_id) IN (
    SELECT team_id, principal_id, command_id FROM commands
    WHERE done_at_s < :before ORDER BY done_at_s LIMIT :most
);

-- name: people_named
-- Principals of a canonical name that still have a valid key.
SELECT p.principal_id, p.name, p.kind FROM principals AS p
WHERE p.team_id = :team_id AND p.canonical = :canonical AND EXISTS (
    SELECT 1 FROM keys AS k WHERE k.principal_id = p.principal_id
    AND k.revoked_at = '' AND (k.expires_at = '' OR k.expires_at > :now)
);

-- name: principal
-- One principal of the team, or nothing.
SELECT name, kind FROM principals WHERE team_id = :team_id AND principal_id = :principal_id;

-- name: rights_of_principal
-- The permission maps of a principal's valid keys.
SELECT permissions FROM keys
WHERE principal_id = :principal_id AND team_id = :team_id AND revoked_at = ''
  AND (expires_at = '' OR expires_at > :now);

-- name: deliveries_by_session
-- What waits for a principal, newest first.
SELECT message_id FROM deliveries
WHERE team_id = :team_id AND principal_id = :principal_id AND waits = 1 ORDER BY seq DESC LIMIT :most;
