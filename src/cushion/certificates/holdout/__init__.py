"""The hold-out certificate of the user's own net f, and the ledger of looks at held-out rows."""
