-- What has ended, by age, so that what is long over can be let go of. `seq` 0: all but its receipt was let go of.
CREATE INDEX turns_ended ON turns (team_id, seq) WHERE state IN ('completed', 'interrupted', 'failed');
CREATE INDEX approvals_ended ON approvals (team_id, seq) WHERE state IN ('settled', 'withdrawn');
CREATE INDEX messages_ended ON messages (team_id, seq) WHERE state IN ('seen', 'cancelled');
