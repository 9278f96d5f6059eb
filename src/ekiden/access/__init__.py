"""Who may do what: teams, principals, keys with permission maps, pairing of devices, the audit trail."""
