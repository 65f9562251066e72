CREATE DOMAIN "Feeds" AS
CLASS::RSS(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp, channel.ttl:Integer);
CREATE SOURCE "kernel" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml';
CREATE PROFILE "Reading" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u1");
INSERT NOTIFICATION "Watch" INTO "Reading"
SET QUERY "SELECT titel || lnik, COUNT(*) FROM RSS GROUP BY baz ORDER BY qux"
SET TRIGGER "ON INSERT TO RS WHERE titel = 1 AND FOO(x) = 1 AND LENGTH(1) = 2"
START NOW END NEVER SET UTILITY STRICT;
INSERT NOTIFICATION "Joined" INTO "Reading"
SET QUERY "SELECT DISTINCT title, x.y FROM RSS JOIN NEWS AS x ON x.z = RSS.titel ORDER BY LENGTH(link, 1)"
SET TRIGGER "ON INSERT TO RSS"
START NOW END NEVER SET UTILITY STRICT;
