"""The path of every outgoing connection: the guard, the session and the host tokens."""
