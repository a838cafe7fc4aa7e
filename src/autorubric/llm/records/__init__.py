"""Every reply that was paid for, durable before anything is computed from it: the ledger and its parts."""
