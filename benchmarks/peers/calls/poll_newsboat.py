"""One call of newsboat from cron: reload all feeds, send what is unread, mark it as read, as its cache keeps it."""

import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path

newsboat, folder, receiver = sys.argv[1:]
cache = Path(folder, "cache.db")
is_first = not cache.exists()
files = [f"--url-file={folder}/urls", f"--cache-file={cache}", f"--config-file={folder}/config"]
subprocess.run([newsboat, *files, "--execute=reload"], check=True)
connection = sqlite3.connect(cache, isolation_level=None)
if is_first:
    connection.execute("UPDATE rss_item SET unread = 0")
for number, title in connection.execute("SELECT id, title FROM rss_item WHERE unread ORDER BY id").fetchall():
    urllib.request.urlopen(urllib.request.Request(receiver, title.encode()), timeout=10).read()
    connection.execute("UPDATE rss_item SET unread = 0 WHERE id = ?", (number,))
