PRAGMA application_id = 1919246692;
CREATE TABLE feeds (

    url TEXT PRIMARY KEY NOT NULL,
    title TEXT,
    link TEXT,
    updated TIMESTAMP,

    author TEXT,
    subtitle TEXT,
    version TEXT,
    user_title TEXT,
    caching_info TEXT,
    data_hash BLOB,

    stale INTEGER NOT NULL DEFAULT 0,
    updates_enabled INTEGER NOT NULL DEFAULT 1,
    update_after TIMESTAMP,
    last_retrieved TIMESTAMP,
    last_updated TIMESTAMP,
    added TIMESTAMP NOT NULL,
    last_exception TEXT

);
INSERT INTO "feeds" VALUES('https://a.example.org/feed',NULL,NULL,NULL,NULL,NULL,NULL,'My A',NULL,NULL,0,1,NULL,NULL,NULL,'2026-11-30 04:51:28.368672',NULL);
INSERT INTO "feeds" VALUES('https://b.example.org/atom.xml',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,NULL,NULL,NULL,'2026-11-30 04:51:28.369400',NULL);
INSERT INTO "feeds" VALUES('https://c.example.org/rss',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,'2026-11-30 04:51:28.370160',NULL);
