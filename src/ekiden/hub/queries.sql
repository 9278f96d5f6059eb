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
