"""How a deployment is doing, as its account, its cluster and its endpoint say."""
