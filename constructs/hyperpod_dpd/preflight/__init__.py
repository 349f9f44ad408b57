"""Questions to the account, asked before anything is deployed; nothing is changed."""
