-- name: teams
-- The teams of this hub, oldest first.
SELECT team_id, made_at FROM access_teams ORDER BY made_at, team_id;

-- name: team
-- One team.
SELECT team_id, made_at FROM access_teams WHERE team_id = :team_id;

-- name: add_team
-- Makes a team.
INSERT INTO access_teams (team_id, made_at) VALUES (:team_id, :made_at);

-- name: add_principal
-- Makes a principal.
INSERT INTO principals (principal_id, team_id, kind, name, canonical, host_id, made_at)
VALUES (:principal_id, :team_id, :kind, :name, :canonical, :host_id, :made_at);

-- name: principals_named
-- Principals of a canonical name that still have a valid key.
SELECT p.principal_id, p.name FROM principals AS p
WHERE p.team_id = :team_id AND p.canonical = :canonical AND EXISTS (
    SELECT 1 FROM keys AS k WHERE k.principal_id = p.principal_id
    AND k.revoked_at = '' AND (k.expires_at = '' OR k.expires_at > :now)
);

-- name: owner
-- The person who was there first.
SELECT principal_id, name FROM principals
WHERE team_id = :team_id AND kind = 'person' ORDER BY made_at, principal_id LIMIT 1;

-- name: key
-- One key with its principal, whatever its state.
SELECT k.key_id, k.team_id, k.principal_id, k.secret_digest, k.permissions, k.local_line, k.made_at, k.used_at,
    k.expires_at, k.revoked_at, k.parent_key, k.replaced_by, k.suspect_since, p.kind, p.name, p.host_id
FROM keys AS k JOIN principals AS p ON p.principal_id = k.principal_id
WHERE k.key_id = :key_id;

-- name: keys
-- A team's keys, newest first; valid ones before those that have ended.
SELECT k.key_id, k.principal_id, k.permissions, k.local_line, k.made_at, k.used_at, k.expires_at, k.revoked_at,
    k.parent_key, k.replaced_by, k.suspect_since, p.kind, p.name, p.host_id, COALESCE(s.session_id, '') AS session_id
FROM keys AS k JOIN principals AS p ON p.principal_id = k.principal_id
    LEFT JOIN seats AS s ON s.team_id = k.team_id AND s.principal_id = k.principal_id
WHERE k.team_id = :team_id
ORDER BY CASE WHEN k.revoked_at = '' THEN 0 ELSE 1 END, k.made_at DESC, k.key_id LIMIT :most;

-- name: count_keys
-- How many valid keys a team has.
SELECT count(*) AS count FROM keys
WHERE team_id = :team_id AND revoked_at = '' AND (expires_at = '' OR expires_at > :now);

-- name: local_keys
-- The valid keys of the command line on this computer.
SELECT key_id FROM keys WHERE team_id = :team_id AND local_line = 1 AND revoked_at = '' ORDER BY key_id;

-- name: add_key
-- Makes a key.
INSERT INTO keys (key_id, team_id, principal_id, secret_digest, permissions, local_line, made_at, made_by, used_at,
    expires_at, revoked_at, parent_key)
VALUES (:key_id, :team_id, :principal_id, :secret_digest, :permissions, :local_line, :made_at, :made_by, '',
    :expires_at, '', :parent_key);

-- name: keys_below
-- Keys that end with a key, and have not ended.
SELECT key_id, permissions FROM keys
WHERE team_id = :team_id AND parent_key = :parent_key AND revoked_at = '' ORDER BY made_at, key_id;

-- name: keys_below_since
-- Keys that were made below a key and had not ended at a time.
SELECT key_id FROM keys
WHERE team_id = :team_id AND parent_key = :parent_key AND (revoked_at = '' OR revoked_at > :since)
    AND (expires_at = '' OR expires_at > :since) ORDER BY made_at, key_id;

-- name: valid_keys_of
-- The valid keys of a principal.
SELECT key_id FROM keys
WHERE team_id = :team_id AND principal_id = :principal_id AND revoked_at = ''
    AND (expires_at = '' OR expires_at > :now) ORDER BY made_at, key_id;

-- name: change_key
-- Gives a key another map.
UPDATE keys SET permissions = :permissions WHERE key_id = :key_id;

-- name: replace_key
-- Notes which key takes another's place, and until when that one goes on.
UPDATE keys SET replaced_by = :replaced_by, expires_at = :expires_at WHERE key_id = :key_id;

-- name: move_keys_below
-- Puts the keys below one key below another.
UPDATE keys SET parent_key = :new_parent_key
WHERE team_id = :team_id AND parent_key = :parent_key AND revoked_at = '';

-- name: suspect_key
-- Notes since when a key is not trusted; only ever earlier.
UPDATE keys SET suspect_since = :suspect_since
WHERE key_id = :key_id AND (suspect_since = '' OR suspect_since > :suspect_since);

-- name: count_keys_below
-- How many valid keys end with a key.
SELECT count(*) AS count FROM keys
WHERE team_id = :team_id AND parent_key = :parent_key AND revoked_at = ''
    AND (expires_at = '' OR expires_at > :now);

-- name: use_key
-- Notes that a key is in use.
UPDATE keys SET used_at = :used_at WHERE key_id = :key_id;

-- name: revoke_key
-- Ends a key; changes nothing if it has ended already.
UPDATE keys SET revoked_at = :revoked_at WHERE team_id = :team_id AND key_id = :key_id AND revoked_at = '';

-- name: add_pairing
-- Opens a pairing.
INSERT INTO pairings (pairing_id, team_id, code_digest, claim_digest, local, name, device, words, state, permissions,
    key_expires_at, made_by, made_at, claimed_at, expires_at)
VALUES (:pairing_id, :team_id, :code_digest, '', :local, :name, '', '', 'open', :permissions,
    :key_expires_at, :made_by, :made_at, '', :expires_at);

-- name: pairing
-- One pairing.
SELECT * FROM pairings WHERE team_id = :team_id AND pairing_id = :pairing_id;

-- name: pairing_by_code
-- The pairing that a code belongs to.
SELECT * FROM pairings WHERE team_id = :team_id AND code_digest = :code_digest;

-- name: pairing_by_claim
-- The pairing that a claim belongs to.
SELECT * FROM pairings WHERE team_id = :team_id AND claim_digest = :claim_digest;

-- name: live_pairings
-- Pairings that are not at their end, oldest first.
SELECT * FROM pairings WHERE team_id = :team_id AND state IN ('open', 'waiting', 'confirmed')
ORDER BY made_at, pairing_id;

-- name: claim_pairing
-- A device has come.
UPDATE pairings SET state = :state, claim_digest = :claim_digest, device = :device, words = :words,
    claimed_at = :claimed_at
WHERE pairing_id = :pairing_id;

-- name: move_pairing
-- Moves a pairing to another state.
UPDATE pairings SET state = :state WHERE pairing_id = :pairing_id;

-- name: forget_pairings
-- Drops pairings whose end was long ago; their events stay.
DELETE FROM pairings WHERE team_id = :team_id AND expires_at < :before
    AND state NOT IN ('open', 'waiting', 'confirmed');

-- name: tries
-- How many wrong codes came from a source, and since when.
SELECT since_s, tries FROM pairing_tries WHERE team_id = :team_id AND source = :source;

-- name: set_tries
-- Counts wrong codes of a source.
INSERT INTO pairing_tries (team_id, source, since_s, tries) VALUES (:team_id, :source, :since_s, :tries)
ON CONFLICT (team_id, source) DO UPDATE SET since_s = excluded.since_s, tries = excluded.tries;

-- name: audit
-- Events of the access topic before a seq, newest first.
SELECT e.seq, e.kind, e.at, e.actor_id, e.actor_key, e.actor_name, e.body
FROM event_topics AS t JOIN events AS e ON e.team_id = t.team_id AND e.seq = t.seq
WHERE t.team_id = :team_id AND t.topic = 'access' AND t.seq < :before ORDER BY t.seq DESC LIMIT :most;

-- name: add_invite
-- Opens an invite.
INSERT INTO invites (team_id, invite_id, code_digest, made_by_key, state, expires_at, invite)
VALUES (:team_id, :invite_id, :code_digest, :made_by_key, 'open', :expires_at, :invite);

-- name: invite
-- One invite.
SELECT invite_id, made_by_key, state, expires_at, invite FROM invites
WHERE team_id = :team_id AND invite_id = :invite_id;

-- name: invite_by_code
-- The invite that a code belongs to.
SELECT invite_id, made_by_key, state, expires_at, invite FROM invites
WHERE team_id = :team_id AND code_digest = :code_digest;

-- name: invites
-- A team's invites, those that run longest first.
SELECT invite_id, made_by_key, state, expires_at, invite FROM invites
WHERE team_id = :team_id ORDER BY expires_at DESC, invite_id LIMIT :most;

-- name: open_invites
-- Invites that nobody has claimed yet.
SELECT invite_id, made_by_key, state, expires_at, invite FROM invites
WHERE team_id = :team_id AND state = 'open' ORDER BY expires_at, invite_id;

-- name: set_invite
-- Moves an invite to its end.
UPDATE invites SET state = :state, invite = :invite WHERE team_id = :team_id AND invite_id = :invite_id;

-- name: move_invites
-- Gives the open invites of a key to the one that takes its place.
UPDATE invites SET made_by_key = :new_key
WHERE team_id = :team_id AND made_by_key = :made_by_key AND state = 'open';

-- name: forget_invites
-- Drops invites whose end was long ago; their events stay.
DELETE FROM invites WHERE team_id = :team_id AND state <> 'open' AND expires_at < :before;

-- name: seat_of_session
-- Which agent a session is.
SELECT s.principal_id, s.session_id, s.host_id, s.key_id, s.released, p.name
FROM seats AS s JOIN principals AS p ON p.principal_id = s.principal_id
WHERE s.team_id = :team_id AND s.session_id = :session_id;

-- name: seat_of_principal
-- Which session an agent is.
SELECT s.principal_id, s.session_id, s.host_id, s.key_id, s.released, p.name
FROM seats AS s JOIN principals AS p ON p.principal_id = s.principal_id
WHERE s.team_id = :team_id AND s.principal_id = :principal_id;

-- name: put_seat
-- Keeps a seat.
INSERT INTO seats (team_id, principal_id, session_id, host_id, key_id, released)
VALUES (:team_id, :principal_id, :session_id, :host_id, :key_id, :released)
ON CONFLICT (team_id, principal_id) DO UPDATE SET key_id = excluded.key_id, released = excluded.released;
