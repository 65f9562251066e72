"""HTTP: guarded and paced requests, robots.txt and WebSub hubs."""
