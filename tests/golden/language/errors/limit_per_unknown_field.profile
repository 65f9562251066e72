CREATE DOMAIN "Feeds" AS
CLASS::RSS(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp, channel.ttl:Integer);
CREATE SOURCE "kernel" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml';
CREATE PROFILE "Reading" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u1");
INSERT NOTIFICATION "Watch"
INTO "Reading"
SET QUERY "SELECT title FROM RSS"
SET TRIGGER "ON INSERT TO RSS"
START NOW
END "30 days" + NOW
SET UTILITY STRICT
SET LIMIT 1 PER DAY PER titel;
