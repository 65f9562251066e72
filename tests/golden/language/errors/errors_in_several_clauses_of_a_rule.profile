CREATE DOMAIN "Feeds" AS
CLASS::RSS(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp, channel.ttl:Integer);
CREATE SOURCE "kernel" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml';
CREATE PROFILE "Reading" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u1");
INSERT NOTIFICATION "Watch" INTO "Readin"
SET QUERY "SELECT FROM RSS"
SET TRIGGER "ON INSERT TO RSS WHEN COUNT(*) % 0 = 0"
START NOV
END '2026-13-01'
SET UTILITY LINEAR(0 MINUTES)
SET LIFE WINDOW 10;
